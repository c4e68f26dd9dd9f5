//! Lines of any bytes, in bounded memory.

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
            take(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            line.clear();
        }
    }
    if is_open {
        take(&String::from_utf8_lossy(&line));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, each};
    use std::io::BufReader;

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
