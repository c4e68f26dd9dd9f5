//! Lines of any bytes, in bounded memory.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// What is looked at of a line; the rest is passed over.
const LINE_MAX: usize = 16 << 10;

/// Calls `take` with each line, cut to a bound, without its end; bytes that are no text are replaced.
pub(super) fn each(mut from: impl BufRead, mut take: impl FnMut(&str)) -> io::Result<()> {
    let mut line: Vec<u8> = Vec::new();
    let mut is_open = false;
    loop {
        let chunk = match from.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = LINE_MAX.saturating_sub(line.len());
        line.extend(&part[..part.len().min(room)]);
        let used = end.map_or(chunk.len(), |end| end + 1);
        is_open = end.is_none();
        from.consume(used);
        if !is_open {
            give(&line, &mut take);
            line.clear();
        }
    }
    if is_open {
        give(&line, &mut take);
    }
    Ok(())
}

fn give(line: &[u8], take: &mut impl FnMut(&str)) {
    let text = String::from_utf8_lossy(line);
    let text = match of_container(&text) {
        Some(inner) => Cow::Owned(inner),
        None => text,
    };
    take(plain(&text).trim_end_matches('\r'));
}

/// A line as Docker's `json-file` driver keeps it, in the words of Kubernetes' files: when, and the line.
fn of_container(line: &str) -> Option<String> {
    let line = line.trim_end();
    if !line.starts_with("{\"log\":") {
        return None;
    }
    let all: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| all.get(name).and_then(serde_json::Value::as_str);
    let log = text("log")?
        .trim_end_matches(['\r', '\n'])
        .replace('\n', " ");
    Some(match text("time") {
        Some(time) => format!("{time} {} F {log}", text("stream").unwrap_or("stdout")),
        None => log,
    })
}

/// Without what colours a terminal (ECMA-48: CSI and OSC sequences), which else stands within words.
fn plain(line: &str) -> Cow<'_, str> {
    const ESC: char = '\u{1b}';
    if !line.contains(ESC) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(ESC) {
        text.push_str(before);
        let end = match after.chars().next() {
            // Parameters, then one letter.
            Some('[') => after[1..]
                .find(|c| ('@'..='~').contains(&c))
                .map(|at| at + 2),
            Some(']') => after.find('\u{7}').map(|at| at + 1),
            Some(other) => Some(other.len_utf8()),
            None => None,
        };
        // One that does not end is no sequence.
        rest = end.and_then(|end| after.get(end..)).unwrap_or(after);
    }
    text.push_str(rest);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, each, of_container, plain};
    use std::io::BufReader;

    #[test]
    fn colours_are_no_words() {
        for (line, is) in [
            (
                "Using network \u{1b}[1mSocket\u{1b}[0m",
                "Using network Socket",
            ),
            (
                "\u{1b}[32m[1,4]<stdout>:\u{1b}[0mip-1",
                "[1,4]<stdout>:ip-1",
            ),
            ("\u{1b}[38;5;196mx\u{1b}]0;title\u{7}y\u{1b}cz", "xyz"),
            ("x\u{1b}", "x"),
            ("x\u{1b}[1;2", "x[1;2"),
            ("plain", "plain"),
        ] {
            assert_eq!(plain(line), is, "{line:?}");
        }
    }

    #[test]
    fn lines_of_containers_are_those_within() {
        for (line, is) in [
            (
                r#"{"log":"h:1:2 [0] NCCL INFO x\r\n","stream":"stderr","time":"2026-12-01T05:00:00.5Z"}"#,
                Some("2026-12-01T05:00:00.5Z stderr F h:1:2 [0] NCCL INFO x"),
            ),
            (r#"{"log":"say \"a\"\n"}"#, Some("say \"a\"")),
            (r#"{"log":"cut"#, None),
            (r#"{"log":7}"#, None),
            ("{}", None),
        ] {
            assert_eq!(of_container(line).as_deref(), is, "{line}");
        }
    }

    #[test]
    fn lines_are_cut_and_none_is_lost() {
        let mut bytes = b"one\r\n\xff\xfe\n\n".to_vec();
        bytes.extend(vec![b'x'; 3 * LINE_MAX]);
        bytes.extend(b"\nlast");
        let mut lines = Vec::new();
        each(BufReader::with_capacity(7, bytes.as_slice()), |line| {
            lines.push(line.to_owned());
        })
        .unwrap();
        assert_eq!(lines.len(), 5);
        assert_eq!(
            (lines[0].as_str(), lines[2].as_str(), lines[4].as_str()),
            ("one", "", "last")
        );
        assert_eq!(lines[3].len(), LINE_MAX);
    }
}
