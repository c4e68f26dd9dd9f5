//! What the parser makes of environments.

use super::{Flavour, Id, Note, Values, parse};

fn neuron(pairs: &[(&str, &str)]) -> (Values, Vec<Note>) {
    parse(Flavour::Neuron, pairs.iter().copied())
}

#[test]
fn an_empty_environment_gives_the_defaults_of_the_flavour() {
    let (neuron, notes) = neuron(&[("PATH", "/bin"), ("NCCL_DEBUG", "INFO")]);
    let (nccl, _) = parse(Flavour::Nccl, [] as [(&str, &str); 0]);
    assert!(notes.is_empty());
    assert!(neuron.flag(Id::MrCacheDisable));
    assert!(!nccl.flag(Id::MrCacheDisable));
    assert_eq!(neuron.number(Id::MinStripeSize), 65_536);
    assert_eq!(neuron.text(Id::ExcludeTcpIf), Some("lo,docker0"));
    assert_eq!(neuron.text(Id::Protocol), None);
}

#[test]
fn values_are_read_as_the_reference_reads_them() {
    let (values, notes) = neuron(&[
        ("OFI_NCCL_EAGER_MAX_SIZE", "0x1000"),
        ("OFI_NCCL_FORCE_NUM_RAILS", " 4"),
        ("OFI_NCCL_EXCLUDE_TCP_IF", ""),
        ("OFI_NCCL_PROTOCOL", "rdma"),
        ("OFI_NCCL_CQ_SIZE", ""),
    ]);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(values.number(Id::EagerMaxSize), 4096);
    assert_eq!(values.number(Id::ForceNumRails), 4);
    assert_eq!(values.text(Id::ExcludeTcpIf), Some(""));
    assert_eq!(values.text(Id::Protocol), Some("RDMA"));
    assert_eq!(values.number(Id::CqSize), 12_288);
    assert!(!values.is_set(Id::CqSize));
}

#[test]
fn what_cannot_be_used_is_one_warning_and_the_default() {
    for value in [
        "abc",
        "1e3",
        "yes",
        "-7",
        "99999999999999999999",
        "5",
        "0x",
        "%s%n",
    ] {
        let (values, notes) = neuron(&[("OFI_NCCL_FORCE_NUM_RAILS", value)]);
        let [note] = &notes[..] else {
            panic!("{value}: {notes:?}")
        };
        let text = note.to_string();
        assert!(text.starts_with("OFI-W0203 "), "{text}");
        assert!(text.contains("OFI_NCCL_FORCE_NUM_RAILS=\""), "{text}");
        assert!(text.contains("using the default, 0;"), "{text}");
        assert_eq!(values.number(Id::ForceNumRails), 0);
    }
}

#[test]
fn an_unknown_name_is_one_warning_with_the_nearest() {
    let pairs = [
        ("OFI_NCCL_PROTOCAL", "RDMA"),
        ("NCCL_OFI_WOMBAT", "1"),
        ("OTHER", "1"),
    ];
    let (_, notes) = neuron(&pairs);
    let [first, second] = &notes[..] else {
        panic!("{notes:?}")
    };
    assert!(
        first
            .to_string()
            .contains("\"NCCL_OFI_WOMBAT\"; no parameter"),
        "{}",
        first
    );
    assert!(
        second
            .to_string()
            .contains("did you mean OFI_NCCL_PROTOCOL?"),
        "{}",
        second
    );
}

#[test]
fn the_name_wins_over_its_alias_in_either_order() {
    let name = ("OFI_NCCL_SCHED_MAX_SMALL_RR_SIZE", "128");
    let alias = ("OFI_NCCL_SCHED_MAX_SMALL_MSG_SIZE", "256");
    for pairs in [[name, alias], [alias, name]] {
        let (values, notes) = neuron(&pairs);
        assert_eq!(values.number(Id::SchedMaxSmallRrSize), 128);
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
    let (values, notes) = neuron(&[alias]);
    assert_eq!(values.number(Id::SchedMaxSmallRrSize), 256);
    assert!(notes.is_empty());
}

#[test]
fn of_a_name_that_comes_twice_the_first_counts() {
    let pairs = [("OFI_NCCL_CQ_SIZE", "100"), ("OFI_NCCL_CQ_SIZE", "200")];
    assert_eq!(neuron(&pairs).0.number(Id::CqSize), 100);
}

#[test]
fn a_parameter_without_effect_says_so_only_when_it_differs() {
    assert!(neuron(&[("OFI_NCCL_ERRORCHECK_MUTEX", "0")]).1.is_empty());
    let (_, notes) = neuron(&[
        ("OFI_NCCL_ERRORCHECK_MUTEX", "1"),
        ("OFI_NCCL_TUNER_TYPE", "model"),
    ]);
    let [Note::Info(first), Note::Info(_)] = &notes[..] else {
        panic!("{notes:?}")
    };
    assert!(first.contains("no effect"), "{first}");
}

#[test]
fn a_hostile_value_is_shown_bounded_and_printable() {
    let value = format!("{}\n{}", "\u{1b}[31m", "x".repeat(10_000));
    let (_, notes) = neuron(&[
        ("OFI_NCCL_CQ_SIZE", &value),
        (&format!("OFI_NCCL_{value}"), ""),
    ]);
    assert_eq!(notes.len(), 2);
    for note in notes {
        let text = note.to_string();
        assert!(
            text.len() < 600 && !text.contains(char::is_control),
            "{text}"
        );
    }
}
