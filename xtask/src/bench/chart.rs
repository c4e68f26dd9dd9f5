//! Bars on a logarithmic axis, as an SVG of its own.

use core::fmt::Write as _;

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 520.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 64.0;
const BAR: f64 = 22.0;
/// Longer is better, and as long as ours: colours that differ in lightness too.
const BETTER: &str = "#1b6ca8";
const WORSE: &str = "#d1495b";

/// A bar: what it is of, and how often ours fits in it.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
}

/// Bars from 1, to the right of it where ours is better; values of 0 and below, and what is no number, are left
/// out.
pub(super) fn draw(title: &str, axis: &str, bars: &[Bar]) -> String {
    let bars: Vec<&Bar> = bars
        .iter()
        .filter(|bar| bar.value.is_finite() && bar.value > 0.0)
        .collect();
    let logs = || bars.iter().map(|bar| bar.value.log10());
    let low = logs().fold(0.0, f64::min).floor();
    let high = logs().fold(0.0, f64::max).ceil().max(low + 1.0);
    let at = |log: f64| LEFT + (log - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + BAR * bars.len() as f64;
    let height = bottom + 44.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" fill=\"#222\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (WIDTH / 2.0, 30.0), "middle", title);
    let mut log = low;
    while log <= high {
        let x = at(log);
        let color = if log == 0.0 { "#222" } else { "#ddd" };
        line(&mut svg, x, (TOP - 8.0, bottom), color);
        text(&mut svg, (x, bottom + 18.0), "middle", &power(log));
        log += 1.0;
    }
    text(&mut svg, (WIDTH / 2.0, bottom + 38.0), "middle", axis);
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + BAR * row as f64;
        draw_bar(&mut svg, bar, y, (at(0.0), at(bar.value.log10())));
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_bar(svg: &mut String, bar: &Bar, y: f64, (one, end): (f64, f64)) {
    text(svg, (LEFT - 10.0, y + 14.0), "end", &bar.label);
    let (x, width) = (one.min(end), (end - one).abs());
    let color = if bar.value < 1.0 { WORSE } else { BETTER };
    let height = BAR - 7.0;
    // Writing to a string does not fail.
    let _infallible = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
    );
    let value = number(bar.value);
    text(svg, (one.max(end) + 6.0, y + 13.0), "start", &value);
}

fn line(svg: &mut String, x: f64, (from, to): (f64, f64), color: &str) {
    let _infallible = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"{from:.1}\" x2=\"{x:.1}\" y2=\"{to:.1}\" stroke=\"{color}\"/>"
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _infallible = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

fn power(log: f64) -> String {
    format!("{}", 10_f64.powf(log))
}

/// Three digits, or as many as are before the point.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{BETTER, Bar, WORSE, draw, number};

    fn bar(label: &str, value: f64) -> Bar {
        Bar {
            label: label.to_owned(),
            value,
        }
    }

    #[test]
    fn a_bar_for_each_value_and_a_colour_for_each_side() {
        let bars = [
            bar("a & b", 150.0),
            bar("c", 0.5),
            bar("d", f64::NAN),
            bar("e", 0.0),
        ];
        let svg = draw("t", "x", &bars);
        assert_eq!(
            (svg.matches(BETTER).count(), svg.matches(WORSE).count()),
            (1, 1)
        );
        assert!(svg.contains("a &amp; b") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(!draw("t", "x", &[]).contains("NaN"));
    }

    #[test]
    fn numbers_are_as_long_as_they_mean_something() {
        let all = [1234.5, 12.34, 1.234, 0.0123].map(number);
        assert_eq!(all, ["1234", "12.3", "1.23", "0.012"]);
    }
}
