//! Tables in text files: a row a line, columns between bars, `#` before remarks.

/// Rows with exactly `N` columns, without the blanks around them; others are passed over (tests see to
/// it that there are none).
pub(crate) fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    lines(text).filter_map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        columns.try_into().ok()
    })
}

/// Lines that should be rows.
pub(crate) fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}
