//! Makes shared libraries of a few hundred bytes: enough for whoever reads them as a loader does.

/// What is in it.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) machine: u16,
    pub(super) needs: Vec<String>,
    pub(super) exports: Vec<String>,
    /// Versions that it defines.
    pub(super) defines: Vec<String>,
    /// `file:version` that it wants.
    pub(super) wants: Vec<(String, String)>,
    pub(super) rpath: Option<String>,
    pub(super) runpath: Option<String>,
    /// A library that it opens at run time: its name is among the strings.
    pub(super) opens: Option<String>,
    /// It is a program: of a fixed place, or of any (PIE).
    pub(super) program: Option<Program>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Fixed,
    Pie,
}

#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        let at = u64::try_from(self.0.len()).unwrap();
        self.0.extend(text.as_bytes());
        self.0.push(0);
        at
    }
}

const HEAD: u64 = 64 + 2 * 56;

impl Made {
    /// Its bytes: header, two program headers, then the tables one after another, addresses as in the file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut strings = Strings(vec![0]);
        let mut dynamic: Vec<(u64, u64)> = Vec::new();
        for name in &self.needs {
            dynamic.push((1, strings.add(name)));
        }
        for (tag, path) in [(15, &self.rpath), (29, &self.runpath)] {
            if let Some(path) = path {
                dynamic.push((tag, strings.add(path)));
            }
        }
        if let Some(name) = &self.opens {
            strings.add(name);
        }
        if self.program == Some(Program::Pie) {
            dynamic.push((0x6fff_fffb, 0x0800_0001));
        }
        let symbols = self.symbols(&mut strings);
        let defines = self.verdefs(&mut strings);
        let wants = self.verneeds(&mut strings);
        let count = u32::try_from(symbols.len() / 24).unwrap();
        let hash: Vec<u8> = [1, count, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut body = Vec::new();
        let place = |bytes: &[u8], body: &mut Vec<u8>| {
            let at = HEAD + u64::try_from(body.len()).unwrap();
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
            at
        };
        for (tag, bytes) in [
            (5, &strings.0),
            (6, &symbols),
            (4, &hash),
            (0x6fff_fffc, &defines),
            (0x6fff_fffe, &wants),
        ] {
            if !bytes.is_empty() {
                dynamic.push((tag, place(bytes, &mut body)));
            }
        }
        dynamic.push((10, u64::try_from(strings.0.len()).unwrap()));
        dynamic.push((0, 0));
        let pairs = dynamic.iter().flat_map(|(tag, value)| [*tag, *value]);
        let table: Vec<u8> = pairs.flat_map(u64::to_le_bytes).collect();
        let at = place(&table, &mut body);
        let mut file = self.head(
            at,
            u64::try_from(table.len()).unwrap(),
            u64::try_from(body.len()).unwrap(),
        );
        file.extend(body);
        file
    }

    fn head(&self, dynamic: u64, len: u64, body: u64) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        let kind = if self.program == Some(Program::Fixed) {
            2
        } else {
            3
        };
        for half in [kind, self.machine] {
            head.extend(half.to_le_bytes());
        }
        head.extend(1_u32.to_le_bytes());
        for word in [0_u64, 64, 0] {
            head.extend(word.to_le_bytes());
        }
        head.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 2, 64, 0, 0] {
            head.extend(half.to_le_bytes());
        }
        let whole = HEAD + body;
        for (kind, at, len) in [(1_u32, 0, whole), (2, dynamic, len)] {
            head.extend(kind.to_le_bytes());
            head.extend(4_u32.to_le_bytes());
            for word in [at, at, at, len, len, 8] {
                head.extend(word.to_le_bytes());
            }
        }
        head
    }

    fn symbols(&self, strings: &mut Strings) -> Vec<u8> {
        let mut table = vec![0; 24];
        for name in &self.exports {
            table.extend(u32::try_from(strings.add(name)).unwrap().to_le_bytes());
            table.extend([0x11, 0, 1, 0]);
            table.extend([0; 16]);
        }
        table
    }

    fn verdefs(&self, strings: &mut Strings) -> Vec<u8> {
        let mut table = Vec::new();
        for (i, name) in self.defines.iter().enumerate() {
            let next = if i + 1 < self.defines.len() {
                28_u32
            } else {
                0
            };
            for half in [1_u16, 0, u16::try_from(i).unwrap() + 2, 1] {
                table.extend(half.to_le_bytes());
            }
            for word in [0, 20, next, u32::try_from(strings.add(name)).unwrap(), 0] {
                table.extend(word.to_le_bytes());
            }
        }
        table
    }

    fn verneeds(&self, strings: &mut Strings) -> Vec<u8> {
        let mut table = Vec::new();
        for (i, (file, version)) in self.wants.iter().enumerate() {
            let next = if i + 1 < self.wants.len() { 32_u32 } else { 0 };
            for half in [1_u16, 1] {
                table.extend(half.to_le_bytes());
            }
            for word in [u32::try_from(strings.add(file)).unwrap(), 16, next, 0, 0] {
                table.extend(word.to_le_bytes());
            }
            for word in [u32::try_from(strings.add(version)).unwrap(), 0] {
                table.extend(word.to_le_bytes());
            }
        }
        table
    }
}
