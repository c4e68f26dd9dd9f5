//! The devices of a host as an SVG: a frame a root bus, a box a NIC or an accelerator, a colour a device.

use ofi_topo::{Accelerators, Grouping, PciFunction};

use super::host::Host;
use crate::report::svg::escape;

/// Of a box, in pixels.
const WIDTH: usize = 150;
const HEIGHT: usize = 56;
/// Between boxes, and from a frame to what is in it.
const GAP: usize = 10;
/// Of the title of a frame.
const TITLE: usize = 22;
/// Boxes side by side.
const IN_ROW: usize = 8;

/// Draws the host.
pub(super) fn draw(host: &Host, grouping: &Grouping, accelerators: Accelerators) -> String {
    let functions = host.tree.functions().iter();
    let shown = functions.filter(|f| host.nic(f.address).is_some() || accelerators.contain(f));
    let shown: Vec<&PciFunction> = shown.collect();
    let buses: Vec<&[&PciFunction]> = shown.chunk_by(|a, b| root(a) == root(b)).collect();
    let most = buses.iter().map(|bus| bus.len().min(IN_ROW)).max();
    let inner = most.unwrap_or(1).max(2) * (WIDTH + GAP) + GAP;
    let mut body = String::new();
    let mut top = GAP + TITLE;
    text(&mut body, (GAP, TITLE), "title", &host.name);
    for bus in buses {
        let rows = bus.len().div_ceil(IN_ROW);
        let height = TITLE + rows * (HEIGHT + GAP) + GAP;
        frame(&mut body, (top, inner, height), &title(host, bus));
        for (number, function) in bus.iter().enumerate() {
            let left = 2 * GAP + number % IN_ROW * (WIDTH + GAP);
            let at = (left, top + TITLE + GAP + number / IN_ROW * (HEIGHT + GAP));
            one(&mut body, at, &labels(host, grouping, function));
        }
        top += height + GAP;
    }
    let width = inner + 2 * GAP;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" viewBox=\"0 0 {width} {top}\">\n\
         <style>text{{font:12px sans-serif;fill:#222}}.title{{font-weight:bold}}.small{{font-size:11px;fill:#555}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn root(function: &PciFunction) -> (u32, u8) {
    let top = function.bridges.first().unwrap_or(&function.address);
    (top.domain(), top.bus())
}

fn title(host: &Host, bus: &[&PciFunction]) -> String {
    let Some(first) = bus.first() else {
        return String::new();
    };
    let (domain, number) = root(first);
    match host.tree.numa_of(first) {
        Some(node) => format!("root bus {domain:04x}:{number:02x}, NUMA node {node}"),
        None => format!("root bus {domain:04x}:{number:02x}, of no NUMA node"),
    }
}

/// What stands in a box, and its colour.
struct Labels {
    lines: [String; 3],
    fill: String,
}

fn labels(host: &Host, grouping: &Grouping, function: &PciFunction) -> Labels {
    let address = function.address.to_string();
    let Some(nic) = host.nic(function.address) else {
        let near = grouping
            .devices
            .iter()
            .position(|d| d.near == Some(function.address));
        let near = near.map_or_else(String::new, |device| format!("device {device}"));
        return Labels {
            lines: ["accelerator".to_owned(), address, near],
            fill: "#e8e8e8".to_owned(),
        };
    };
    let rails = grouping.devices.iter().enumerate();
    let mut rails = rails.filter_map(|(device, group)| {
        let rail = group.rails.iter().position(|index| *index == nic.index)?;
        Some((device, rail))
    });
    let (says, fill) = match rails.next() {
        // Neighbours get hues far apart.
        Some((device, rail)) => (
            format!("device {device}, rail {rail}"),
            format!("hsl({},65%,82%)", device * 137 % 360),
        ),
        None => ("not used".to_owned(), "white".to_owned()),
    };
    Labels {
        lines: [nic.name.clone(), address, says],
        fill,
    }
}

fn frame(out: &mut String, (top, width, height): (usize, usize, usize), title: &str) {
    out.push_str(&format!("<rect x=\"{GAP}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#fafafa\" stroke=\"#bbb\"/>\n"));
    text(out, (2 * GAP, top + TITLE - 5), "title", title);
}

fn one(out: &mut String, (left, top): (usize, usize), Labels { lines, fill }: &Labels) {
    out.push_str(&format!("<rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"{fill}\" stroke=\"#888\"/>\n"));
    for (number, line) in lines.iter().enumerate() {
        let class = if number == 0 { "title" } else { "small" };
        text(out, (left + 8, top + 17 + 15 * number), class, line);
    }
}

fn text(out: &mut String, (left, top): (usize, usize), class: &str, line: &str) {
    let line = escape(line);
    out.push_str(&format!(
        "<text x=\"{left}\" y=\"{top}\" class=\"{class}\">{line}</text>\n"
    ));
}
