//! `ofi stats` and `ofi top` on files that are made here: of a process that lives (this one), of one that ended, of one
//! that died, and of nobody.
#![expect(clippy::unwrap_used, reason = "test code")]

mod top;

use ofi_trace::stats::{
    COMMS_MAX, CommAt, FILE_WORDS, HeadAt, MAGIC, RAILS_MAX, RailAt, State, Total, VERSION,
    comm_word, hw_word, rail_word, text_words, total_word,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ofi(words: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(words)
        .arg(dir)
        .env_remove("OFI_NCCL_STATS_DIR")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file of counters.
struct Made(Vec<u64>);

impl Made {
    /// Of this process.
    fn new() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let (_, behind) = stat.rsplit_once(')').unwrap();
        let ticks = behind.split_ascii_whitespace().nth(19).unwrap();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot: String = boot
            .chars()
            .filter(char::is_ascii_hexdigit)
            .take(16)
            .collect();
        let namespace = std::fs::read_link("/proc/self/ns/pid")
            .unwrap()
            .display()
            .to_string();
        let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
        let mut made = Self(vec![0; FILE_WORDS]);
        for (at, value) in [
            (HeadAt::Magic, MAGIC),
            (HeadAt::Version, VERSION),
            (HeadAt::Words, FILE_WORDS as u64),
            (HeadAt::Rails, RAILS_MAX as u64),
            (HeadAt::Comms, COMMS_MAX as u64),
            (HeadAt::Pid, u64::from(std::process::id())),
            (HeadAt::StartTicks, ticks.parse().unwrap()),
            (HeadAt::Boot, u64::from_str_radix(&boot, 16).unwrap()),
            (HeadAt::PidNamespace, namespace.parse().unwrap()),
            (HeadAt::State, State::Live as u64),
            (HeadAt::CommsOpen, 1),
            (HeadAt::CommsEver, 3),
        ] {
            made.set(at as usize, value);
        }
        made.text::<8>(HeadAt::Host as usize, "node\"1\\");
        made.total(Total::Sends, 10)
            .total(Total::EagerSends, 4)
            .total(Total::BytesSent, 5000);
        made.set(rail_word(0, RailAt::Used), 1);
        made.set(rail_word(0, RailAt::BytesSent), 5000);
        made.text::<6>(rail_word(0, RailAt::Nic), "rdmap0s6");
        made.text::<4>(hw_word(0, 0), "retrans_bytes");
        made.set(hw_word(0, 0) + 4, 100);
        made.set(hw_word(0, 0) + 5, 100);
        for (at, value) in [
            (CommAt::First, 1),
            (CommAt::Last, 1),
            (CommAt::Id, 6),
            (CommAt::Bytes, 5000),
        ] {
            made.set(comm_word(0, at), value);
        }
        made.text::<8>(comm_word(0, CommAt::Peer), "10.0.0.2:5");
        made
    }

    fn set(&mut self, at: usize, value: u64) -> &mut Self {
        self.0[at] = value;
        self
    }

    fn total(&mut self, total: Total, value: u64) -> &mut Self {
        self.set(total_word(total), value)
    }

    fn text<const N: usize>(&mut self, from: usize, text: &str) {
        self.0[from..from + N].copy_from_slice(&text_words::<N>(text));
    }

    /// All that follows the place of a word is lost.
    fn lost(&mut self, from: usize) -> &mut Self {
        self.0[from..].fill(u64::MAX);
        self
    }

    fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let path = dir.join(format!("ofi-{name}.stats"));
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// One that lives, one that ended, one that died, one of another container.
fn four(dir: &Path) {
    Made::new().write(dir, "live");
    Made::new()
        .set(HeadAt::State as usize, State::Ended as u64)
        .write(dir, "ended");
    Made::new()
        .set(HeadAt::StartTicks as usize, 1)
        .write(dir, "dead");
    Made::new()
        .set(HeadAt::PidNamespace as usize, 1)
        .write(dir, "elsewhere");
}

#[test]
fn every_process_is_told_with_whether_it_lives() {
    let dir = tempfile::tempdir().unwrap();
    four(dir.path());
    let shown = ofi(&["stats"], dir.path());
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let page = text(&shown.stdout);
    for life in ["live", "ended", "dead", "elsewhere"] {
        assert!(
            page.contains(&format!("libnccom-net.so, RDMA): {life},")),
            "{life}: {page}"
        );
    }
    assert!(
        page.contains("sent 10 messages, 5000 bytes, 0 segments, 4 eagerly (40 %)"),
        "{page}"
    );
    assert!(
        page.contains("communicator 6 (send, device 0)") && page.contains("10.0.0.2:5"),
        "{page}"
    );
    let object = json(&ofi(&["stats", "--json"], dir.path()));
    let processes = object["processes"].as_array().unwrap();
    let lives: Vec<_> = processes
        .iter()
        .map(|p| p["life"].as_str().unwrap())
        .collect();
    assert_eq!(
        lives,
        ["dead", "elsewhere", "ended", "live"],
        "by name of file"
    );
    assert_eq!(object["version"], 1);
    assert_eq!(processes[0]["totals"]["sent_bytes"], 5000);
    assert_eq!(
        processes[0]["totals"].as_object().unwrap().len(),
        Total::ALL.len()
    );
    assert_eq!(processes[0]["rails"][0]["nic"], "rdmap0s6");
    assert_eq!(processes[0]["comms"][0]["peer"], "10.0.0.2:5");
}

#[test]
fn only_what_is_over_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    four(dir.path());
    std::fs::write(dir.path().join("mine.txt"), "kept").unwrap();
    let cleaned = ofi(&["stats", "--clean"], dir.path());
    assert_eq!(cleaned.status.code(), Some(0), "{cleaned:?}");
    let entries = std::fs::read_dir(dir.path()).unwrap();
    let mut left: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["mine.txt", "ofi-elsewhere.stats", "ofi-live.stats"]);
    let said = text(&cleaned.stdout);
    assert!(
        said.contains("ofi-dead.stats: dead") && said.contains("ofi-ended.stats: ended"),
        "{said}"
    );
}

/// Of a family its help and type once, then its samples; labels are those of other exporters.
#[test]
fn prometheus_can_read_it() {
    let dir = tempfile::tempdir().unwrap();
    four(dir.path());
    let printed = ofi(&["stats", "--prometheus"], dir.path());
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let mut families = std::collections::BTreeSet::new();
    let mut family = String::new();
    for line in text(&printed.stdout).lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            family = head.split(' ').next().unwrap().to_owned();
            assert!(families.insert(family.clone()), "{family} comes twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            assert_eq!(name, family);
            let (_, value) = rest.rsplit_once("} ").unwrap();
            value.parse::<u64>().unwrap();
        }
    }
    let (pid, file) = (std::process::id(), dir.path().join("ofi-live.stats"));
    let rail = format!(
        "ofi_nccl_rail_sent_bytes_total{{device=\"rdmap0s6\",port=\"1\",ofi_device=\"0\",rail=\"0\",\
         host=\"node\\\"1\\\\\",pid=\"{pid}\",plugin=\"libnccom-net.so\",protocol=\"RDMA\",file=\"{}\"}} 5000",
        file.display()
    );
    let page = text(&printed.stdout);
    assert!(page.lines().any(|line| line == rail), "{page}");
    assert!(
        families.contains("ofi_nccl_hw_retrans_bytes_total"),
        "{families:?}"
    );
    let up = |line: &&str| line.starts_with("ofi_nccl_up{");
    let values: Vec<_> = page
        .lines()
        .filter(up)
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(
        values,
        ["1", "0", "1"],
        "elsewhere, ended, live; the dead are no part of a scrape"
    );
}

/// A scraper refuses a page on which a series comes twice: lives of one process, hosts with one number or one
/// name, counters whose names differ where a metric's cannot, files that name one thing twice.
#[test]
fn no_series_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    four(dir.path());
    for life in 1..=12 {
        let mut made = Made::new();
        made.set(HeadAt::State as usize, State::Ended as u64);
        made.write(dir.path(), &format!("life.{life}"));
    }
    let mut other = Made::new();
    other.set(HeadAt::PidNamespace as usize, 1);
    other.text::<8>(HeadAt::Host as usize, "node2");
    other.write(dir.path(), "of-node2");
    let mut twice = Made::new();
    for (counter, name) in [
        (1, "rx-drops"),
        (2, "rx_drops"),
        (3, "rx.drops"),
        (4, "rx-drops"),
    ] {
        twice.text::<4>(hw_word(0, counter), name);
    }
    for slot in 1..4 {
        twice.set(rail_word(slot, RailAt::Used), 1);
        twice.text::<6>(rail_word(slot, RailAt::Nic), "rdmap0s6");
        for (at, value) in [(CommAt::First, 1), (CommAt::Last, 1), (CommAt::Id, 6)] {
            twice.set(comm_word(slot, at), value);
        }
        twice.text::<8>(comm_word(slot, CommAt::Peer), "10.0.0.2:5");
    }
    twice.write(dir.path(), "twice");
    let page = ofi(&["stats", "--prometheus"], dir.path());
    let page = text(&page.stdout);
    let mut known = std::collections::BTreeSet::new();
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    for line in samples {
        let (series, _) = line.rsplit_once(' ').unwrap();
        assert!(known.insert(series), "{series} comes twice");
    }
    let ups = known.iter().filter(|s| s.starts_with("ofi_nccl_up{"));
    assert_eq!(ups.count(), 17, "each life, and none of the dead");
    let drops = known.iter().filter(|s| s.contains("hw_rx_drops_total"));
    assert_eq!(drops.count(), 3, "{page}");
}

/// A NIC whose driver was loaded anew counts from 0: that is no number near 2^64.
#[test]
fn a_counter_that_began_again_is_no_huge_number() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = Made::new();
    made.set(hw_word(0, 0) + 5, 7);
    made.write(dir.path(), "live");
    for words in [
        &["stats"][..],
        &["stats", "--prometheus"],
        &["stats", "--json"],
    ] {
        let output = ofi(words, dir.path());
        let said = text(&output.stdout);
        assert!(!said.contains("184467"), "{said}");
        assert!(said.contains("retrans_bytes"), "{said}");
    }
    let object = json(&ofi(&["stats", "--json"], dir.path()));
    assert_eq!(object["processes"][0]["rails"][0]["hw"]["retrans_bytes"], 7);
}

/// Links, pipes and directories with the name of a file of counters are none, in a directory that others write
/// to; a pipe that is named is refused, and not waited for.
#[test]
fn what_others_put_among_the_files_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let file = Made::new().write(elsewhere.path(), "far");
    std::os::unix::fs::symlink(&file, dir.path().join("ofi-link.stats")).unwrap();
    std::fs::create_dir(dir.path().join("ofi-dir.stats")).unwrap();
    let pipe = dir.path().join("ofi-pipe.stats");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let object = ofi(&["stats", "--json"], dir.path());
    assert_eq!(object.status.code(), Some(2), "{object:?}");
    assert_eq!(json(&object)["processes"].as_array().unwrap().len(), 0);
    let named = ofi(&["stats"], &pipe);
    assert_eq!(named.status.code(), Some(1), "{named:?}");
    assert!(text(&named.stderr).contains("no file"), "{named:?}");
}

/// What a NIC counts goes on while its process lives: read below the root that is given, and never outside.
#[test]
fn counters_of_nics_are_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (files, root) = (dir.path().join("files"), dir.path().join("root"));
    let hw = root.join("sys/class/infiniband/rdmap0s6/ports/1/hw_counters");
    std::fs::create_dir_all(&hw).unwrap();
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(hw.join("retrans_bytes"), "130\n").unwrap();
    std::fs::write(root.join("secret"), "9\n").unwrap();
    let mut made = Made::new();
    made.text::<4>(hw_word(0, 1), "../../../../../../../secret");
    made.write(&files, "live");
    let root = root.display().to_string();
    let object = json(&ofi(&["stats", "--json", "--root", &root], &files));
    let hw = &object["processes"][0]["rails"][0]["hw"];
    assert_eq!(hw["retrans_bytes"], 30);
    assert_eq!(hw["../../../../../../../secret"], 0);
    std::fs::write(
        dir.path()
            .join("root/sys/class/infiniband/rdmap0s6/ports/1/hw_counters/retrans_bytes"),
        "x",
    )
    .unwrap();
    let object = json(&ofi(&["stats", "--json", "--root", &root], &files));
    assert_eq!(object["processes"][0]["rails"][0]["hw"]["retrans_bytes"], 0);
}

#[test]
fn hostile_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = Made::new().write(dir.path(), "live");
    let whole = std::fs::read(&path).unwrap();
    for (name, bytes, says) in [
        ("cut", &whole[..1000], "cut off or damaged"),
        ("empty", &[][..], "does not begin with OFISTATS"),
        (
            "other",
            b"something else altogether",
            "does not begin with OFISTATS",
        ),
    ] {
        std::fs::write(dir.path().join(format!("ofi-{name}.stats")), bytes).unwrap();
        let shown = ofi(&["stats"], dir.path());
        assert_eq!(shown.status.code(), Some(1), "{shown:?}");
        assert!(text(&shown.stderr).contains(says), "{name}: {shown:?}");
        assert!(
            text(&shown.stdout).contains(": live,"),
            "the others are shown: {shown:?}"
        );
        // Whose it is nobody knows: it stays.
        assert_eq!(
            ofi(&["stats", "--clean"], dir.path()).status.code(),
            Some(1)
        );
        std::fs::remove_file(dir.path().join(format!("ofi-{name}.stats"))).unwrap();
    }
    Made::new()
        .set(HeadAt::Version as usize, 2)
        .write(dir.path(), "new");
    assert!(text(&ofi(&["stats"], dir.path()).stderr).contains("version 2"));
    // A file that is being made is nobody's yet.
    let making = dir.path().join("making");
    std::fs::create_dir(&making).unwrap();
    std::fs::write(making.join("ofi-x.stats"), vec![0; whole.len()]).unwrap();
    let shown = ofi(&["stats"], &making);
    assert_eq!(
        (shown.status.code(), text(&shown.stderr)),
        (Some(2), "ofi stats: no process counts here\n")
    );
    for (words, dir) in [
        (&["stats"][..], "/nonexistent"),
        (&["top", "--once"][..], "/nonexistent"),
    ] {
        let nothing = ofi(words, Path::new(dir));
        assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    }
    let unsaid = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("stats")
        .env_remove("OFI_NCCL_STATS_DIR")
        .output();
    let unsaid = unsaid.unwrap();
    assert_eq!(unsaid.status.code(), Some(2));
    assert!(text(&unsaid.stderr).contains("OFI_NCCL_STATS_DIR"));
}

/// A good head, and a body that was lost.
#[test]
fn a_lost_body_is_not_shown_as_numbers() {
    let dir = tempfile::tempdir().unwrap();
    Made::new()
        .lost(rail_word(0, RailAt::Used))
        .write(dir.path(), "x");
    for words in [
        &["stats"][..],
        &["stats", "--json"],
        &["stats", "--prometheus"],
        &["top", "--once", "--interval", "0.01"],
    ] {
        let shown = ofi(words, dir.path());
        assert_eq!(shown.status.code(), Some(1), "{words:?}: {shown:?}");
        assert!(
            text(&shown.stderr).contains("x.stats: damaged: its word 64 is "),
            "{shown:?}"
        );
        assert!(
            !text(&shown.stdout).contains("18446744073709551615"),
            "{shown:?}"
        );
    }
}

/// A script learns by the status that it looks where nobody counts; with what is over there is nothing to remove.
#[test]
fn a_directory_in_which_nobody_counts_is_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let once = ["top", "--once", "--interval", "0.01"];
    let with = |words: &[&'static str], word| [words, &[word]].concat();
    for words in [
        vec!["stats"],
        vec!["stats", "--json"],
        vec!["stats", "--prometheus"],
        once.to_vec(),
        with(&once, "--json"),
    ] {
        let ran = ofi(&words, dir.path());
        assert_eq!(ran.status.code(), Some(2), "{words:?}: {ran:?}");
        let says = format!("ofi {}: no process counts here\n", words[0]);
        assert_eq!(text(&ran.stderr), says, "{words:?}");
        if words.contains(&"--json") {
            assert_eq!(json(&ran)["processes"], serde_json::json!([]), "{words:?}");
        }
    }
    let cleaned = ofi(&["stats", "--clean"], dir.path());
    assert_eq!(cleaned.status.code(), Some(0), "{cleaned:?}");
    // One that ended has numbers, and does nothing now.
    Made::new()
        .set(HeadAt::State as usize, State::Ended as u64)
        .write(dir.path(), "ended");
    for (words, status) in [(&["stats"][..], 0), (&once, 2)] {
        let ran = ofi(words, dir.path());
        assert_eq!(ran.status.code(), Some(status), "{words:?}: {ran:?}");
    }
}
