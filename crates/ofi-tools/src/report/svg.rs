//! `--plot`: latency and bandwidth over size, both on logarithmic axes, as an SVG of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::row::Row;
use crate::bench::plan::Mode;
use crate::size::human;

const WIDTH: f64 = 1180.0;
const PANEL: f64 = 480.0;
const PLOT_HEIGHT: f64 = 340.0;
const TOP: f64 = 80.0;
const LEFT: [f64; 2] = [80.0, 670.0];
/// Colours that differ in lightness too, so that they do on paper and for colour-blind eyes.
const COLORS: [&str; 10] = [
    "#1b6ca8", "#d1495b", "#2a9d5c", "#8e5ea2", "#e08e0b", "#17a2a2", "#6b4226", "#e377c2",
    "#555555", "#9aa800",
];

/// Points of one line: size, value.
type Line = Vec<(f64, f64)>;
/// Mode, window, communicators.
type Key = (Mode, usize, usize);
type Series = BTreeMap<Key, Line>;
type Colors = BTreeMap<Key, &'static str>;

/// Whether a drawing of these rows shows anything.
pub(crate) fn has_points(rows: &[Row]) -> bool {
    !(latencies(rows).is_empty() && bandwidths(rows).is_empty())
}

fn latencies(rows: &[Row]) -> Series {
    series(rows, |r| r.latency_us.map(|l| l.median))
}

fn bandwidths(rows: &[Row]) -> Series {
    series(rows, |r| (r.mode != Mode::Lat).then_some(r.bus_gbps))
}

/// The whole picture.
pub(crate) fn draw(title: &str, rows: &[Row]) -> String {
    let (latency, bandwidth) = (latencies(rows), bandwidths(rows));
    let lines = latency.len().max(bandwidth.len());
    let height = TOP + PLOT_HEIGHT + 70.0 + 20.0 * lines as f64;
    let mut svg = Svg::new(height);
    svg.text((WIDTH / 2.0, 32.0), ("middle", 20), title);
    // One colour for a series in both panels.
    let keys: BTreeSet<Key> = latency.keys().chain(bandwidth.keys()).copied().collect();
    let colors: Colors = keys.into_iter().zip(COLORS.into_iter().cycle()).collect();
    svg.panel(LEFT[0], ("median latency, microseconds", &latency), &colors);
    svg.panel(LEFT[1], ("bus bandwidth, GB/s", &bandwidth), &colors);
    svg.finish()
}

fn series(rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Series {
    let mut out = Series::new();
    for row in rows.iter().filter(|r| r.size > 0 && r.mode != Mode::Check) {
        if let Some(v) = value(row).filter(|v| *v > 0.0) {
            let key = (row.mode, row.window_asked, row.comms);
            out.entry(key).or_default().push((row.size as f64, v));
        }
    }
    out
}

/// A logarithmic axis over whole powers of a base.
#[derive(Debug, Clone, Copy)]
struct Axis {
    base: f64,
    low: i32,
    high: i32,
    start: f64,
    length: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, base: f64, (start, length): (f64, f64)) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values {
            let p = v.log(base);
            (low, high) = (low.min((p + 1e-9).floor()), high.max((p - 1e-9).ceil()));
        }
        let (low, high) = (power(low), power(high));
        Self {
            base,
            low,
            high: high.max(low + 1),
            start,
            length,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log(self.base) - f64::from(self.low)) / f64::from(self.high - self.low);
        self.start + share * self.length
    }

    /// Powers with a label, not closer than `room` allows: both ends, and what fits between.
    fn ticks(&self, room: i32) -> Vec<f64> {
        let step = ((self.high - self.low) / room).max(1);
        let mut ticks = Vec::new();
        let mut p = self.low;
        // The last one before the end gives way if it stands too close to it.
        while (self.high - p) * 2 >= step && p < self.high {
            ticks.push(self.base.powi(p));
            p += step;
        }
        ticks.push(self.base.powi(self.high));
        ticks
    }
}

/// Sizes and rates are far within this range.
#[expect(clippy::cast_possible_truncation, reason = "clamped just before")]
fn power(p: f64) -> i32 {
    if p.is_finite() {
        p.clamp(-60.0, 60.0) as i32
    } else {
        0
    }
}

struct Svg(String);

impl Svg {
    fn new(height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        ))
    }

    fn add(&mut self, args: core::fmt::Arguments<'_>) {
        self.0.push_str(&format!("{args}\n"));
    }

    fn text(&mut self, (x, y): (f64, f64), (anchor, size): (&str, u32), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        let ((a, b), (c, d)) = (from, to);
        self.add(format_args!(
            "<line x1=\"{a:.1}\" y1=\"{b:.1}\" x2=\"{c:.1}\" y2=\"{d:.1}\" stroke=\"{color}\"/>"
        ));
    }

    fn panel(&mut self, left: f64, (title, series): (&str, &Series), colors: &Colors) {
        self.text((left + PANEL / 2.0, TOP - 18.0), ("middle", 15), title);
        if series.is_empty() {
            let middle = (left + PANEL / 2.0, TOP + PLOT_HEIGHT / 2.0);
            self.text(middle, ("middle", 13), "not measured in this run");
            return;
        }
        let points = || series.values().flatten();
        let bottom = TOP + PLOT_HEIGHT;
        let x = Axis::over(points().map(|p| p.0), 2.0, (left, PANEL));
        let y = Axis::over(points().map(|p| p.1), 10.0, (bottom, -PLOT_HEIGHT));
        self.grid(left, x, y);
        for (i, (key, line)) in series.iter().enumerate() {
            let color = colors.get(key).copied().unwrap_or(COLORS[0]);
            self.curve(line, (x, y), color);
            let at = (left, bottom + 62.0 + 20.0 * i as f64);
            self.legend(at, color, &label(*key));
        }
    }

    fn grid(&mut self, left: f64, x: Axis, y: Axis) {
        let bottom = TOP + PLOT_HEIGHT;
        for size in x.ticks(8) {
            let at = x.at(size);
            self.line((at, TOP), (at, bottom), "#ddd");
            self.text((at, bottom + 18.0), ("middle", 12), &size_label(size));
        }
        for value in y.ticks(10) {
            let at = y.at(value);
            self.line((left, at), (left + PANEL, at), "#bbb");
            self.text((left - 8.0, at + 4.0), ("end", 12), &format!("{value}"));
            for minor in [2.0, 5.0] {
                let v = value * minor;
                if v.log10() < f64::from(y.high) {
                    self.line((left, y.at(v)), (left + PANEL, y.at(v)), "#eee");
                }
            }
        }
        let middle = left + PANEL / 2.0;
        self.text(
            (middle, bottom + 38.0),
            ("middle", 12),
            "bytes (message, or whole buffer of a collective)",
        );
    }

    fn curve(&mut self, line: &Line, (x, y): (Axis, Axis), color: &str) {
        let mut sorted = line.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at: Vec<(f64, f64)> = sorted.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        let path: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        for ((px, py), (size, value)) in at.iter().zip(&sorted) {
            let tip = format!("{} B: {value:.3}", size_label(*size));
            self.add(format_args!(
                "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{color}\"><title>{tip}</title></circle>"
            ));
        }
    }

    fn legend(&mut self, (x, y): (f64, f64), color: &str, text: &str) {
        self.add(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{color}\" stroke-width=\"3\"/>",
            x + 26.0
        ));
        self.text((x + 34.0, y + 4.0), ("start", 13), text);
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn label((mode, window, comms): Key) -> String {
    match (mode, comms) {
        (Mode::Lat, _) => "lat (half round trip)".to_owned(),
        (_, 1) => format!("{}, window {window}", mode.name()),
        _ => format!("{}, window {window}, {comms} comms", mode.name()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are whole and below 2^31"
)]
fn size_label(size: f64) -> String {
    human(size as usize)
}

/// Text between tags.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Latency;

    fn row(mode: Mode, size: usize, us: f64, gbps: f64) -> Row {
        Row {
            mode,
            size,
            window: 8,
            window_asked: 8,
            comms: 1,
            iterations: 1,
            messages: 1,
            latency_us: Some(Latency {
                min: us,
                median: us,
                p99: us,
            }),
            algorithm_gbps: gbps,
            bus_gbps: gbps,
            messages_per_s: 1.0,
            verified: false,
        }
    }

    #[test]
    fn a_line_for_each_series_and_every_tag_closed() {
        let rows = [
            row(Mode::Lat, 8, 10.0, 0.1),
            row(Mode::Lat, 1 << 20, 900.0, 1.1),
            row(Mode::Bw, 8, 3.0, 0.01),
            row(Mode::Bw, 1 << 20, 3.0, 5.0),
            row(Mode::Bw, 0, 3.0, 0.0),
        ];
        let svg = draw("a & b", &rows);
        assert_eq!(
            svg.matches("<polyline").count(),
            3,
            "latency of lat and bw, bandwidth of bw"
        );
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("a &amp; b") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(draw("x", &[]).matches("not measured").count(), 2);
        assert!(!draw("x", &[row(Mode::Lat, 8, 1.0, 1.0)]).contains("NaN"));
    }

    #[test]
    fn only_rows_over_size_are_points() {
        let none = [row(Mode::Check, 8, 1.0, 1.0), row(Mode::Bw, 0, 1.0, 0.0)];
        assert!(!has_points(&none) && !has_points(&[]));
        assert!(has_points(&[row(Mode::Lat, 8, 1.0, 0.0)]));
    }

    #[test]
    fn both_ends_of_an_axis_have_a_label_and_no_two_labels_touch() {
        for high in 1..=40 {
            let axis = Axis {
                base: 2.0,
                low: 0,
                high,
                start: 0.0,
                length: PANEL,
            };
            let ticks = axis.ticks(8);
            assert_eq!(ticks.first(), Some(&1.0));
            assert_eq!(ticks.last(), Some(&2_f64.powi(high)));
            let step = (high / 8).max(1);
            for pair in ticks.windows(2) {
                let gap = pair[1].log2() - pair[0].log2();
                assert!(gap * 2.0 >= f64::from(step), "{high}: {ticks:?}");
            }
        }
    }

    #[test]
    fn an_axis_spans_its_values() {
        let a = Axis::over([3.0, 900.0].into_iter(), 10.0, (100.0, -50.0));
        assert_eq!((a.low, a.high), (0, 3));
        assert!((a.at(1.0) - 100.0).abs() < 1e-9 && (a.at(1000.0) - 50.0).abs() < 1e-9);
    }
}
