//! `ofi topo` on the shapes of real instances, from each kind of source.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ofi_topo::shape::Shape;

/// The sources of an instance, in a directory that goes with them.
struct Sources {
    dir: tempfile::TempDir,
}

impl Sources {
    fn of(shape: &Shape) -> Self {
        let dir = tempfile::tempdir().unwrap();
        shape.write_sysfs(&dir.path().join("root")).unwrap();
        fs::write(dir.path().join("dump.xml"), shape.hwloc_xml()).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn topo(words: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ofi"));
    command.arg("topo").args(words);
    for (option, path) in paths {
        command
            .args((!option.is_empty()).then_some(option))
            .arg(path);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Sysfs and a dump say the same, and the groups are those of the reference.
#[test]
fn groups_are_alike_from_each_source() {
    for (name, count, first) in [
        ("p4d", 4, "device 0: rdmap16s27 (0000:10:1b.0)"),
        ("p5en", 8, "device 0: "),
        ("trn1", 8, "device 0: "),
    ] {
        let sources = Sources::of(&Shape::by_name(name).unwrap());
        let (root, dump) = (sources.path("root"), sources.path("dump.xml"));
        let from_sysfs = said(&topo(&["groups"], &[("--root", &root)]));
        assert_eq!(said(&topo(&["groups"], &[("--from", &dump)])), from_sysfs);
        assert_eq!(from_sysfs.lines().count(), count, "{from_sysfs}");
        assert!(from_sysfs.starts_with(first), "{from_sysfs}");
        // Links are what hwloc does not tell.
        let same = topo(&["diff"], &[("", &dump), ("--root", &root)]);
        assert_eq!(said(&same), "no difference\n");
    }
}

#[test]
fn a_file_for_nccl_is_written_and_taken_back() {
    let shape = Shape::by_name("p5").unwrap();
    let sources = Sources::of(&shape);
    let (root, file) = (sources.path("root"), sources.path("nccl.xml"));
    let text = said(&topo(&["emit"], &[("--root", &root)]));
    assert_eq!(text.matches("link_speed=").count(), 8, "{text}");
    fs::write(&file, &text).unwrap();
    let taken = topo(&["validate"], &[("", &file), ("--root", &root)]);
    assert!(said(&taken).starts_with("NCCL takes it"));
    // It is a source too.
    let shown = said(&topo(&["show"], &[("--from", &file)]));
    assert!(shown.contains("NUMA node 1, root bus 0000:"), "{shown}");
    // Of another instance, and with a damaged number.
    fs::write(
        &file,
        text.replacen("0000:52:00.0", "0000:51:17.0", 1)
            .replacen("GT/s", "furlongs", 1),
    )
    .unwrap();
    let refused = topo(&["validate"], &[("", &file), ("--root", &root)]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let faults = String::from_utf8(refused.stdout).unwrap();
    assert!(faults.contains("this host has no 0000:51:17.0"), "{faults}");
    assert!(faults.contains("furlongs"), "{faults}");
    // One NIC a device: there is nothing to tell.
    let p4d = Sources::of(&Shape::by_name("p4d").unwrap());
    let none = topo(&["emit"], &[("--root", &p4d.path("root"))]);
    assert!(said(&none).is_empty() && !none.stderr.is_empty());
}

#[test]
fn what_is_missing_or_elsewhere_is_told() {
    let whole = Shape::by_name("p4d").unwrap();
    let sources = Sources::of(&whole);
    let part = Sources::of(&whole.without(|f| f.address.to_string() == "0000:10:1b.0"));
    let (root, other) = (sources.path("root"), part.path("root"));
    let less = topo(&["diff"], &[("", &other), ("--root", &root)]);
    assert_eq!(less.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(less.stdout).unwrap(),
        "- 0000:10:1b.0 (NIC rdmap16s27)\n"
    );
    let more = topo(&["diff"], &[("", &root), ("--root", &other)]);
    assert!(
        String::from_utf8(more.stdout)
            .unwrap()
            .starts_with("+ 0000:10:1b.0")
    );
}

#[test]
fn a_picture_shows_every_nic_and_its_device() {
    let shape = Shape::by_name("p5").unwrap();
    let sources = Sources::of(&shape);
    let (root, file) = (sources.path("root"), sources.path("p5.svg"));
    said(&topo(&["show"], &[("--root", &root), ("--svg", &file)]));
    let picture = fs::read_to_string(file).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for nic in &shape.nics {
        assert_eq!(picture.matches(&format!(">{}<", nic.name)).count(), 1);
    }
    for device in 0..8 {
        for rail in 0..4 {
            let label = format!(">device {device}, rail {rail}<");
            assert_eq!(picture.matches(&label).count(), 1, "{label}");
        }
    }
    assert_eq!(picture.matches(">accelerator<").count(), 8);
}

#[test]
fn what_cannot_be_read_is_status_2() {
    for words in [
        &["show", "--from", "/no/such/file"][..],
        &["show", "--from", "/proc/self/exe"],
        &["validate", "/no/such/file"],
        &["groups", "--rails", "7"],
        &["show", "--from", "x", "--hwloc"],
    ] {
        let output = topo(words, &[]);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}

fn noted(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What a source lacks is a note, and the answer the same.
#[test]
fn what_a_source_does_not_say_is_noted() {
    let shape = Shape::by_name("p5").unwrap();
    let sources = Sources::of(&shape);
    let (root, dump) = (sources.path("root"), sources.path("dump.xml"));
    assert_eq!(noted(&topo(&["groups"], &[("--root", &root)])), "");
    let from_dump = topo(&["groups"], &[("--from", &dump)]);
    assert!(noted(&from_dump).contains("no link's speed and width"));
    // A NIC under the address of another.
    let text = fs::read_to_string(&dump).unwrap();
    let twice = sources.path("twice.xml");
    let [one, other] = [0, 1].map(|i| shape.nics[i].address.to_string());
    fs::write(&twice, text.replace(&other, &one)).unwrap();
    let note = noted(&topo(&["groups"], &[("--from", &twice)]));
    assert!(
        note.contains(&format!("{one} comes several times")),
        "{note}"
    );
    // A place that is none: what was there is missed by name.
    let broken = sources.path("broken.xml");
    fs::write(&broken, text.replacen(&other, "0000:zz:00.0", 1)).unwrap();
    let ran = topo(&["groups"], &[("--from", &broken)]);
    let note = noted(&ran);
    assert!(
        note.contains("\"0000:zz:00.0\" is no PCI address: "),
        "{note}"
    );
    assert!(said(&ran).contains("note: devices have 3 to 4 rails"));
    // An entry that leads out of the root, as in a copy of a host that is not whole, and one of another name.
    let list = root.join("sys/bus/pci/devices");
    for (name, says) in [
        (
            "0000:fe:00.0",
            "0000:fe:00.0 is listed, and its entry leads to no such function",
        ),
        ("0000:zz:00.0", "\"0000:zz:00.0\" is no PCI address: "),
    ] {
        std::os::unix::fs::symlink("/nowhere", list.join(name)).unwrap();
        let note = noted(&topo(&["groups"], &[("--root", &root)]));
        assert!(note.contains(says) && note.lines().count() == 1, "{note}");
        fs::remove_file(list.join(name)).unwrap();
    }
    // An accelerator less, and no tree at all.
    let mut functions = shape.tree.functions().iter();
    let gpu = functions.find(|f| f.vendor == 0x10de).unwrap();
    let gpu = root.join(format!("sys/bus/pci/devices/{}", gpu.address));
    fs::remove_file(gpu).unwrap();
    let note = noted(&topo(&["groups"], &[("--root", &root)]));
    assert!(
        note.contains("7 of the 8 accelerators of p5.48xlarge"),
        "{note}"
    );
    fs::remove_dir_all(root.join("sys/bus")).unwrap();
    let note = noted(&topo(&["groups"], &[("--root", &root)]));
    assert!(note.contains("shows no PCI function"), "{note}");
    // That there is nothing is an answer, and not silence.
    let groups = said(&topo(&["groups"], &[("--root", &root)]));
    assert!(
        groups.starts_with("no devices: sysfs below ") && groups.contains("--nic"),
        "{groups}"
    );
}

/// What NCCL's own parser may refuse is told, and no fault: nobody here knows that it does.
#[test]
fn what_nccl_may_refuse_is_a_warning() {
    let sources = Sources::of(&Shape::by_name("p5").unwrap());
    let (root, file) = (sources.path("root"), sources.path("nccl.xml"));
    let text = said(&topo(&["emit"], &[("--root", &root)]));
    let validate = |text: &str| {
        fs::write(&file, text).unwrap();
        let ran = topo(&["validate"], &[("", &file), ("--root", &root)]);
        assert!(said(&ran).starts_with("NCCL takes it"), "{ran:?}");
        noted(&ran)
    };
    assert_eq!(validate(&text), "");
    assert_eq!(
        validate(&format!("<?xml version=\"1.0\"?>\n{text}").replace("  <cpu", "\t<cpu")),
        "ofi topo: warning: line 1: a declaration or instruction (<?..?>): NCCL's own parser may refuse it\n\
         ofi topo: warning: line 3: a tab: NCCL's own parser may refuse it\n"
    );
}

/// Hundreds of a kind are one note.
#[test]
fn many_of_a_kind_are_one_note() {
    let sources = Sources::of(&Shape::by_name("p5").unwrap());
    let root = sources.path("root");
    let list = root.join("sys/bus/pci/devices");
    for number in 0..300 {
        let (bus, slot) = (number / 32, number % 32);
        for name in [
            format!("000a:{bus:02x}:{slot:02x}.0"),
            format!("none{number:03}"),
        ] {
            std::os::unix::fs::symlink("/nowhere", list.join(name)).unwrap();
        }
    }
    let note = noted(&topo(&["groups"], &[("--root", &root)]));
    let lines: Vec<&str> = note.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "ofi topo: note: 300 functions are listed, and their entries lead to no such function below the root \
          (000a:00:00.0, 000a:00:01.0, 000a:00:02.0, ..): they are left out"
        ],
        "{note}"
    );
    // Of texts some are kept.
    assert!(
        lines[0].contains("names are no PCI address (\"none000\", \"none001\", \"none002\", ..): "),
        "{note}"
    );
}

/// The number of the host is what the plugin on it writes; where it cannot be known that is said.
#[test]
fn a_file_has_the_number_of_its_host() {
    let sources = Sources::of(&Shape::by_name("p5").unwrap());
    let (root, dump) = (sources.path("root"), sources.path("dump.xml"));
    for path in [("--root", root.as_path()), ("--from", &dump)] {
        let ran = topo(&["emit"], &[path]);
        assert!(said(&ran).contains("host_hash=\"0x0\""), "{ran:?}");
        assert!(
            noted(&ran).contains("host_hash is 0x0: nothing here tells"),
            "{ran:?}"
        );
    }
    fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
    let boot = root.join("proc/sys/kernel/random/boot_id");
    let written = ["one", "other"].map(|id| {
        fs::write(&boot, id).unwrap();
        let ran = topo(&["emit"], &[("--root", &root)]);
        assert_eq!(noted(&ran), "");
        let hash = format!("host_hash=\"{:#x}\"", ofi_net::host_hash(&root).unwrap());
        let text = said(&ran);
        assert!(text.contains(&hash) && !text.contains("\"0x0\""), "{text}");
        hash
    });
    assert_ne!(written[0], written[1]);
}

/// Links that a host hides are told by what the NICs carry, with a note; in a file alike from all sources.
#[test]
fn links_that_are_not_shown_are_noted() {
    let shape = Shape::by_name("p5en").unwrap();
    let sources = Sources::of(&shape);
    let root = sources.path("root");
    let links = |root: &Path| {
        let text = said(&topo(&["emit"], &[("--root", root)]));
        text.matches("link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"")
            .count()
    };
    assert_eq!(links(&root), 8);
    let hide = |which: &str| {
        for function in shape.tree.functions() {
            let dir = root.join(format!("sys/bus/pci/devices/{}", function.address));
            fs::write(dir.join(format!("{which}_link_speed")), "Unknown speed\n").unwrap();
            fs::remove_file(dir.join(format!("{which}_link_width"))).unwrap();
        }
        (noted(&topo(&["emit"], &[("--root", &root)])), links(&root))
    };
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/machine-id"), "1").unwrap();
    // What the links do now is better than a guess.
    assert_eq!(hide("max"), (String::new(), 8));
    let (note, links) = hide("current");
    let says = "no speed or width of the PCI link is shown of 8 NICs that lead devices (";
    assert!(note.contains(says) && note.lines().count() == 1, "{note}");
    assert!(note.contains("; of 8 accelerators ("), "{note}");
    assert_eq!(links, 8);
}

/// Virtual functions look like accelerators in a dump of hwloc: the numbers that it gives may be those of no
/// plugin, and that is said. Cards with functions of other kinds have none.
#[test]
fn accelerators_that_may_be_virtual_functions_are_noted() {
    let shape = Shape::by_name("p4d").unwrap();
    let sources = Sources::of(&shape);
    let dump = sources.path("dump.xml");
    let text = fs::read_to_string(&dump).unwrap();
    let gpu = "pci_busid=\"0000:10:1c.0\"";
    let whole = text.lines().find(|line| line.contains(gpu)).unwrap();
    let with = |class: &str| {
        let parts = (1..=3).map(|function| {
            let part = whole.replace("0000:10:1c.0", &format!("0000:10:1c.{function}"));
            let part = part.replace("pci_type=\"0302 ", &format!("pci_type=\"{class} "));
            format!("{part}\n</object>\n")
        });
        let all = parts.collect::<String>() + whole;
        let file = sources.path(&format!("{class}.xml"));
        fs::write(&file, text.replacen(whole, &all, 1)).unwrap();
        noted(&topo(&["groups"], &[("--from", &file)]))
    };
    let note = with("0302");
    let says = "0000:10:1c.1 and 2 more may be virtual functions of the accelerator before them";
    assert!(note.contains(says), "{note}");
    // Sound, USB: the other functions of a card.
    for class in ["0403", "0c03"] {
        let note = with(class);
        assert!(!note.contains("virtual"), "{note}");
    }
}

#[test]
fn a_root_that_is_not_there_and_files_without_end_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let typo = dir.path().join("typo");
    let zero = Path::new("/dev/zero");
    for (words, paths, says) in [
        (
            ["groups"],
            [("--root", typo.as_path())],
            "it is no directory",
        ),
        (["groups"], [("--from", zero)], "no topology has so many"),
        (["validate"], [("", zero)], "no topology has so many"),
    ] {
        let ran = topo(&words, &paths);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        assert!(noted(&ran).contains(says), "{}", noted(&ran));
    }
}

#[test]
fn the_root_of_the_plugins_is_the_default() {
    let sources = Sources::of(&Shape::by_name("p4d").unwrap());
    let root = sources.path("root");
    let by_variable = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["topo", "groups"])
        .env("OFI_NCCL_FS_ROOT", &root)
        .output()
        .unwrap();
    let by_option = topo(&["groups"], &[("--root", &root)]);
    assert_eq!(said(&by_variable), said(&by_option));
    assert_eq!(said(&by_variable).lines().count(), 4);
}

/// As many functions as a file may have: what looks at each for each would take minutes.
#[test]
fn a_large_file_takes_no_time_in_the_square_of_its_size() {
    const MANY: u32 = 60_000;
    // Lines end within elements: between them they would be nodes too, of which a file has no more.
    let file = |first: u32| {
        let functions: String = (first..first + MANY)
            .map(|n| {
                let (domain, bus, slot) = (n >> 12, n >> 5 & 0x7f, n & 0x1f);
                format!("<pci busid=\"{domain:04x}:{bus:02x}:{slot:02x}.0\"\nclass=\"0x030200\"/>")
            })
            .collect();
        format!("<system version=\"1\"><cpu numaid=\"0\">{functions}</cpu></system>")
    };
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    fs::write(&one, file(0)).unwrap();
    fs::write(&other, file(MANY / 2)).unwrap();
    let start = std::time::Instant::now();
    let ran = topo(&["validate"], &[("", &other), ("--from", &one)]);
    let lines = String::from_utf8(ran.stdout).unwrap();
    let missing = lines
        .lines()
        .filter(|line| line.contains("this host has no"));
    assert_eq!((ran.status.code(), missing.count()), (Some(1), 30_000));
    assert!(
        lines.contains(&format!("line {MANY}, <pci>: this host has no")),
        "{}",
        &lines[..200]
    );
    let ran = topo(&["diff"], &[("", &other), ("--from", &one)]);
    let lines = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(
        (ran.status.code(), lines.lines().count()),
        (Some(1), 60_000)
    );
    // In the square it is minutes on any machine, and seconds else.
    assert!(start.elapsed().as_secs() < 100, "{:?}", start.elapsed());
}
