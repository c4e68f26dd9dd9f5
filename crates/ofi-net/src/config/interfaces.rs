//! Lists of IP interfaces: exact names, as the reference compares them (protocol 2i), and nothing of
//! other variables' languages.

use super::split_list;
use crate::error::Code;
use crate::params::{Id, Note, Values, shorten};

/// Bytes of an interface's name (`IFNAMSIZ` of netdevice(7), less the zero).
const NAME_BYTES_MAX: usize = 15;

/// The interfaces not to use. A list with what is no name would leave in what it is meant to keep out: it is
/// one warning, and the default (decision 20).
pub(super) fn excluded(values: &Values, notes: &mut Vec<Note>) -> Vec<String> {
    let names = split_list(values.text(Id::ExcludeTcpIf).unwrap_or_default());
    let mut faults = names.iter().filter_map(|name| Some((name, fault(name)?)));
    let Some((part, why)) = faults.next() else {
        return names;
    };
    let param = Id::ExcludeTcpIf.param();
    notes.push(Note::coded(
        Code::InvalidValue,
        format!(
            "{}={}: {} is {why}, and it takes exact names; using the default, {}",
            param.name,
            shorten(values.text(Id::ExcludeTcpIf).unwrap_or_default()),
            shorten(part),
            param.default_display(values.flavour())
        ),
    ));
    split_list(param.default_text().unwrap_or_default())
}

/// What it is instead of a name.
fn fault(text: &str) -> Option<&'static str> {
    if text.starts_with(['^', '=']) {
        return Some("of the language of NCCL_SOCKET_IFNAME");
    }
    if text.contains(['*', '?', '[', ']', '{', '}']) || is_range(text) {
        return Some("a pattern");
    }
    // Labels of addresses, which libfabric goes by, have a colon: eth0:1.
    let is_foreign = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    (text.len() > NAME_BYTES_MAX || text.contains(is_foreign)).then_some("no name of an interface")
}

/// `eth0-eth3`: the same letters twice, with numbers.
fn is_range(text: &str) -> bool {
    fn letters(text: &str) -> Option<&str> {
        let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
        (!letters.is_empty() && letters.len() < text.len()).then_some(letters)
    }
    text.split_once('-')
        .and_then(|(from, to)| Some((letters(from)?, letters(to)?)))
        .is_some_and(|(from, to)| from == to)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use crate::params::{Flavour, Note, parse};

    fn read(value: &str) -> (Vec<String>, Vec<Note>) {
        let (values, mut notes) = parse(Flavour::Nccl, [("OFI_NCCL_EXCLUDE_TCP_IF", value)]);
        let config = Config::from_values(&values, &mut notes).unwrap();
        (config.exclude_tcp_if, notes)
    }

    #[test]
    fn what_is_no_name_is_one_warning_and_the_default() {
        for value in [
            "^lo",
            "eth1,^lo,^docker0",
            "=eth0",
            "eth0-eth3",
            "eth*",
            "eth?",
            "eth[0-3]",
            "eth{0,1}",
            "eth0 eth1",
            "/dev/eth0",
            "a_name_too_long_for_it",
            "eth0\u{1b}[31m",
        ] {
            let (names, notes) = read(value);
            assert_eq!(names, ["lo", "docker0"], "{value}");
            let [Note::Warning(error)] = &notes[..] else {
                panic!("{value}: {notes:?}")
            };
            let text = error.to_string();
            for part in [
                "OFI-W0203 ",
                "exact names",
                "using the default, \"lo,docker0\";",
            ] {
                assert!(text.contains(part), "{part:?} is not in {text}");
            }
            assert!(!text.contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn names_that_look_odd_are_names() {
        // wlan0-1: as bridges of OpenWrt have them; the last has as many bytes as there may be.
        let odd = "eth0.100,eth0:1,br-4f2e8c1d9a07,wlan0-1,eth0-br0,veth-1@,docker_gwbridge";
        let (names, notes) = read(odd);
        assert_eq!(names.join(","), odd);
        assert!(notes.is_empty(), "{notes:?}");
    }
}
