//! Kernels in `data/*.cu` that say in comments how they are launched and what must come of it.
//!
//! A file begins with what its cases share: source that stands before them, and settings. `//@ case: NAME` begins a
//! kernel's body, whose first line is line 1 in messages. A setting in a case holds for this case alone:
//!
//! - `arguments`: the signature; arrays are buffers, `= i` fills one with 0, 1, 2, … and another number with itself.
//!   `(input)`, `(output)`, `(scratch)` say what a watched launch expects of a buffer's contents.
//! - `launch`: `GRID x BLOCK, shared BYTES, cluster BLOCKS, cooperative, side by side`.
//! - `setup`: stands at the start of each body.
//! - `watch`: the kernel is instrumented and launched with each of these seeds.
//! - `orders`, `residues`, `clocks`, `places`: run conditions, of which each is tried; `-` is none, a place the `start`.
//!   `threads`: those of the device.
//! - `sample: SAMPLES BATCH` instead of one launch; `-` is none.
//! - `leaves`: the variables of the module that a launch changes, or `nothing`. They are restored after each.
//! - `with NAME: text` replaces a word of the body, `gives` and `launch` for the next `finds`.
//! - `finds`: what each launch ends with: `honest`, a verdict's label and ` | ` the message, notes, or `differs` where
//!   buffers depend on the conditions, or `beside BUFFER OFFSET, …` for writes into slack. `*` stands for anything.
//! - `gives:` is followed by plain code that one thread runs; afterwards all buffers must be as the kernel left them.

use std::collections::{BTreeMap, HashMap};

use super::*;

const SETTINGS: &str = "arguments launch setup watch orders residues clocks places threads sample leaves";

#[derive(Default)]
pub(super) struct Case {
    pub(super) name: String,
    settings: BTreeMap<String, String>,
    body: String,
    gives: String,
    pub(super) rows: Vec<Row>,
}

#[derive(Default)]
pub(super) struct Row {
    with: Vec<(String, String)>,
    pub(super) finds: String,
}

impl Row {
    fn fill(&self, text: &str) -> String {
        self.with.iter().fold(text.to_string(), |text, (word, with)| text.replace(word, with))
    }
}

/// What stands before all kernels of a file, and its cases.
pub(super) fn parse(text: &str) -> (String, Vec<Case>) {
    let (mut head, mut cases) = (Case::default(), Vec::<Case>::new());
    let (mut row, mut in_gives) = (Row::default(), false);
    for line in text.lines() {
        let case = cases.last_mut().unwrap_or(&mut head);
        let setting = line.strip_prefix("//@ ").and_then(|setting| setting.split_once(':'));
        assert!(setting.is_some() || !line.contains("//@"), "no setting: {line}");
        match setting {
            None if in_gives => case.gives += &format!("{line}\n"),
            None => case.body += &format!("{line}\n"),
            Some(("case", name)) => {
                assert!(row.with.is_empty(), "{:?} is for no `finds`", row.with);
                let (name, settings) = (name.trim().to_string(), head.settings.clone());
                cases.push(Case { name, settings, ..Case::default() });
                in_gives = false;
            }
            Some(("gives", _)) => in_gives = true,
            Some(("finds", finds)) => {
                assert!(!case.name.is_empty(), "in front of all cases: {line}");
                row.finds = finds.trim().to_string();
                case.rows.push(std::mem::take(&mut row));
            }
            Some((key, value)) => match key.strip_prefix("with ") {
                Some(word) => row.with.push((word.to_string(), value.trim().to_string())),
                None => {
                    assert!(SETTINGS.split(' ').any(|own| own == key), "an unknown setting: {line}");
                    case.settings.insert(key.to_string(), value.trim().to_string());
                }
            },
        }
    }
    assert!(
        row.with.is_empty() && !cases.is_empty(),
        "{:?} is for no `finds`, or there is no case",
        row.with
    );
    for case in cases.iter_mut().filter(|case| case.rows.is_empty()) {
        case.rows.push(Row { finds: "honest".to_string(), ..Row::default() });
    }
    (head.body, cases)
}

impl Case {
    fn setting(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }

    fn numbers(&self, key: &str, default: &str, row: &Row) -> Vec<Option<u64>> {
        let text = row.fill(self.settings.get(key).map_or(default, String::as_str));
        let words = text.split_whitespace();
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => word.parse().unwrap(),
        };
        words.map(|word| (word != "-").then(|| number(word))).collect()
    }

    /// The parts of each argument: its declaration, elements, initial value and contents.
    fn arguments(&self) -> Vec<(&str, Option<usize>, &str, WatchedContents)> {
        let parts = |argument: &'_ str| {
            let at = self.setting("arguments").find(argument).unwrap();
            let argument = &self.setting("arguments")[at..at + argument.len()];
            let (argument, contents) = match argument.split_once(" (") {
                Some((argument, "input)")) => (argument, WatchedContents::Input),
                Some((argument, "output)")) => (argument, WatchedContents::Output),
                Some((argument, "scratch)")) => (argument, WatchedContents::Scratch),
                _ => (argument, WatchedContents::Given),
            };
            let (declared, value) = argument.split_once(" = ").unwrap_or((argument, "0"));
            let (declared, count) = match declared.split_once('[') {
                Some((declared, count)) => (declared, Some(count.trim_end_matches(']').parse().unwrap())),
                None => (declared, None),
            };
            (declared, count, value, contents)
        };
        self.setting("arguments").split(", ").map(parts).collect()
    }

    /// The kernel of a row and, where the case has one, the one that says what comes of it.
    pub(super) fn source(&self, entry: &str, row: &Row) -> String {
        let arguments: Vec<&str> = self.arguments().iter().map(|argument| argument.0).collect();
        let signature = arguments.join(", ");
        let kernel = |name: &str, setup: &str, body: &str| {
            format!("extern \"C\" __global__ void {name}({signature}) {{ {setup}\n#line 1\n{body}}}\n")
        };
        let mut source = kernel(entry, self.setting("setup"), &row.fill(&self.body));
        if !self.gives.is_empty() {
            source += &kernel(&format!("{entry}_gives"), "", &row.fill(&self.gives));
        }
        source
    }

    fn bound(&self, entry: &str, row: &Row, arguments: Vec<BoundArgument>) -> BoundLaunch {
        let launch = row.fill(self.setting("launch"));
        let mut parts = launch.split(", ");
        let (grid, block) = parts.next().unwrap().split_once(" x ").unwrap();
        let sizes = |text: &str| {
            let mut sizes = text.split(' ').map(|size| size.parse().unwrap());
            [(); 3].map(|()| sizes.next().unwrap_or(1))
        };
        let mut bound = BoundLaunch {
            entry: entry.to_string(),
            grid: sizes(grid),
            block: sizes(block),
            arguments,
            ..BoundLaunch::default()
        };
        for part in parts {
            match part.split_once(' ') {
                Some(("shared", bytes)) => bound.shared_bytes = bytes.parse().unwrap(),
                Some(("cluster", blocks)) => bound.cluster = Some(sizes(blocks)),
                _ if part == "cooperative" => bound.cooperative = true,
                _ => assert_eq!(part, "side by side"),
            }
        }
        bound
    }
}

/// The elements of a buffer's or a number's bytes.
fn bytes(declared: &str, count: usize, value: &str) -> Vec<u8> {
    let element = |at: usize| {
        let value: f64 = if value == "i" { at as f64 } else { value.parse().unwrap() };
        match declared.trim_start_matches("const ").split(['*', ' ']).next().unwrap() {
            "float" => (value as f32).to_le_bytes().to_vec(),
            "double" => value.to_le_bytes().to_vec(),
            "unsigned" if !declared.contains("long") => (value as u32).to_le_bytes().to_vec(),
            "long" | "unsigned" => (value as i64).to_le_bytes().to_vec(),
            _ => (value as i32).to_le_bytes().to_vec(),
        }
    };
    (0..count).flat_map(element).collect()
}

struct Runner<'a> {
    device: HostDevice,
    module: ModuleId,
    case: &'a Case,
    row: &'a Row,
}

impl Runner<'_> {
    /// Launches it on fresh buffers: how that ends, and what the buffers hold then.
    fn launch(
        &mut self,
        entry: &str,
        conditions: RunConditions,
        watched: Option<u64>,
    ) -> (String, Vec<Vec<u8>>) {
        let (mut arguments, mut buffers) = (Vec::new(), Vec::new());
        for (declared, count, value, contents) in self.case.arguments() {
            let bytes = bytes(declared, count.unwrap_or(1), value);
            if count.is_none() {
                arguments.push(BoundArgument::Scalar(bytes));
                continue;
            }
            let name = declared.split(['*', ' ']).next_back().unwrap();
            let id = self.device.allocate(name, bytes.len() as u64).unwrap();
            self.device.write(id, &bytes).unwrap();
            arguments.push(buffer(id));
            buffers.push((id, contents));
        }
        let mut bound = self.case.bound(entry, self.row, arguments);
        if entry.ends_with("_gives") {
            bound = BoundLaunch { grid: [1; 3], block: [1; 3], cluster: None, cooperative: false, ..bound };
        }
        self.device.set_conditions(conditions).unwrap();
        let result = match watched {
            Some(order) => {
                let mut watch = watch(&buffers, order);
                if self.case.setting("launch").ends_with("side by side") {
                    watch.turns = BlockTurns::SideBySide;
                }
                let report = self.device.launch_watched(self.module, &[bound], &watch);
                report.map(|report| {
                    let report = report.unwrap();
                    assert!(report.accesses > 0);
                    report.notes.iter().map(|note| format!("{:?}", note.what)).collect()
                })
            }
            None => self.run(bound, entry).map(|()| Vec::new()),
        };
        let mut found: Vec<String> = result.unwrap_or_else(|error| {
            // The process goes on: what a kernel does wrong is told where it happens.
            assert!(!error.sticky, "{}", error.message);
            vec![error.verdict().label(), error.message]
        });
        let damages = self.device.check_guards().unwrap();
        if !damages.is_empty() {
            let places = damages.iter().map(|damage| format!("{} {}", damage.buffer, damage.offset));
            found.push(format!("beside {}", places.collect::<Vec<_>>().join(", ")));
        }
        self.device.arm_guards(0xffff_ffff).unwrap();
        self.device.set_conditions(RunConditions::default()).unwrap();
        assert_eq!(self.device.check_guards().unwrap(), []);
        let found = found.join(" | ").replace(&format!("`{entry}`: "), "");
        let contents = buffers.iter().map(|(id, _)| self.device.read(*id).unwrap()).collect();
        buffers.iter().for_each(|(id, _)| self.device.free(*id).unwrap());
        (if found.is_empty() { "honest".to_string() } else { found }, contents)
    }

    /// Launches or samples it, and tells which variables it changed.
    fn run(&mut self, bound: BoundLaunch, entry: &str) -> Result<(), DeviceError> {
        let (device, module) = (&mut self.device, self.module);
        if entry.ends_with("_gives") {
            return device.launch(module, &[bound]);
        }
        let loaded = device.variables(module)?;
        match self.case.numbers("sample", "-", self.row)[..] {
            [Some(samples), Some(batch)] => {
                let (samples, batch, rotation) = (samples as u32, batch as u32, &[vec![bound]]);
                let mode = TimingMode::Hot;
                device.sample(module, SampleOrder { rotation, mode, samples, batch, untouched: false })?;
            }
            _ => device.launch(module, &[bound])?,
        }
        device.synchronize()?;
        if let Some(leaves) = self.case.settings.get("leaves") {
            let after = device.variables(module)?;
            let changed = loaded.iter().zip(&after).filter(|(before, after)| before != after);
            let mut changed: Vec<&str> = changed.map(|(own, _)| own.name.as_str()).collect();
            changed.sort_unstable();
            let changed = if changed.is_empty() { "nothing".to_string() } else { changed.join(" ") };
            assert_eq!(changed, self.row.fill(leaves), "`leaves` of {}", self.case.name);
            device.restore_variables(module)?;
            assert_eq!(device.variables(module)?, loaded);
        }
        Ok(())
    }

    /// Launches a row's kernel under all its conditions and says what is not as expected.
    fn check(&mut self, entry: &str) -> Result<(), String> {
        let (case, row) = (self.case, self.row);
        let mut conditions = Vec::new();
        for order in case.numbers("orders", "-", row) {
            for residue in case.numbers("residues", "-", row) {
                for clock in case.numbers("clocks", "-", row) {
                    for place in row.fill(case.setting("places")).split(' ') {
                        let placement = if place == "start" { Placement::Start } else { Placement::End };
                        let residue = residue.map(|residue| residue as u32);
                        conditions.push(RunConditions { placement, order, residue, clock });
                    }
                }
            }
        }
        let watches = case.numbers("watch", "-", row);
        let runs = conditions.iter().flat_map(|each| watches.iter().map(move |watched| (*each, *watched)));
        let mut results: Vec<_> =
            runs.clone().map(|(conditions, watched)| self.launch(entry, conditions, watched)).collect();
        let ran = results.iter().all(|(found, _)| !found.contains(" | "));
        if watches == [None] && ran && results.iter().any(|(_, contents)| *contents != results[0].1) {
            let again: Vec<_> = runs.map(|(conditions, _)| self.launch(entry, conditions, None)).collect();
            if again != results {
                return Err("the same conditions do not give the same".to_string());
            }
            results.iter_mut().for_each(|(found, _)| *found = "differs".to_string());
        }
        for (found, contents) in results {
            if !matches(&found, &row.finds) {
                return Err(format!("found    {found}\nexpected {}", row.finds));
            }
            if !case.gives.is_empty() && !found.contains(" | ") && found != "differs" {
                let (ended, expected) =
                    self.launch(&format!("{entry}_gives"), RunConditions::default(), None);
                assert_eq!(ended, "honest", "`gives` of {}", case.name);
                for (number, (found, expected)) in contents.iter().zip(expected).enumerate() {
                    if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
                        let word = |bytes: &[u8]| {
                            format!("{:02x?}", &bytes[at / 8 * 8..bytes.len().min(at / 8 * 8 + 8)])
                        };
                        let (found, expected) = (word(found), word(&expected));
                        return Err(format!(
                            "buffer {number}, byte {at}: found {found}, expected {expected}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a text begins as expected; `*` stands for anything.
fn matches(found: &str, expected: &str) -> bool {
    let mut parts = expected.split('*');
    let Some(mut rest) = found.strip_prefix(parts.next().unwrap_or("")) else { return false };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || expected.ends_with('*')
}

/// Compiles a file's kernels once plainly and once for watching, and gives what is not as expected.
fn failures(file: &str, text: &str) -> Vec<String> {
    let (head, cases) = parse(text);
    let mut failures = Vec::new();
    for instrumented in [false, true] {
        let (mut source, mut entries, mut rows) = (head.clone(), Vec::new(), Vec::new());
        for case in cases.iter().filter(|case| case.settings.contains_key("watch") == instrumented) {
            for row in &case.rows {
                let entry = format!("k{}", rows.len());
                source += &case.source(&entry, row);
                entries.push(entry.clone());
                if !case.gives.is_empty() {
                    entries.push(format!("{entry}_gives"));
                }
                rows.push((entry, case, row));
            }
        }
        if rows.is_empty() {
            continue;
        }
        let names: Vec<&str> = entries.iter().map(String::as_str).collect();
        let binary = match compile_as(&source, &names, instrumented) {
            Ok(binary) => binary,
            Err(errors) => {
                failures.push(format!("{file}: {errors}"));
                continue;
            }
        };
        let mut devices: HashMap<usize, (HostDevice, ModuleId)> = HashMap::new();
        for (entry, case, row) in rows {
            for threads in case.numbers("threads", "2", row) {
                let threads = threads.unwrap() as usize;
                let (device, module) = devices.remove(&threads).unwrap_or_else(|| {
                    let mut device = HostDevice::with_threads(threads).unwrap();
                    let module = device.load(&binary, &entries).unwrap();
                    (device, module)
                });
                let mut runner = Runner { device, module, case, row };
                if let Err(difference) = runner.check(&entry) {
                    let with = &row.with;
                    failures.push(format!("{file}: {} {with:?}\n{}{difference}\n", case.name, case.body));
                }
                devices.insert(threads, (runner.device, module));
            }
        }
    }
    failures
}

/// `EVO_FIXTURE` in the environment chooses files by a part of their name.
#[test]
fn fixtures_do_what_their_comments_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/host/tests/data");
    let chosen = std::env::var("EVO_FIXTURE").unwrap_or_default();
    let (mut failed, mut count) = (Vec::new(), 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy();
        if name.contains(&chosen) {
            count += 1;
            failed.extend(failures(&name, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(count > 0, "no fixture is called `{chosen}`");
    assert!(failed.is_empty(), "{} fixtures\n{}", failed.len(), failed.join("\n"));
}
