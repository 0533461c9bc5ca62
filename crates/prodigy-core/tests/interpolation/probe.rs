//! Running a bound script and seeing what arrives.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use prodigy_core::{
    template::{BoundScript, Script, ShellDialect, VarRoots},
    vars::Vars,
};
use serde_json::Value;

/// A folder with the probe in it. Values that manage to run make a file `canary`.
pub(crate) struct Folder {
    path: PathBuf,
    files: AtomicUsize,
}

/// Which shell runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Dash,
    Bash,
}

pub(crate) const SHELLS: [Shell; 2] = [Shell::Dash, Shell::Bash];

/// Defines `probe`, which prints its arguments, and `probe_in`, which prints
/// its standard input; both print the number of records first. What the value
/// should be may be too big for the environment too.
const PRELUDE: &str = r#"
[ -z "$EXPECTED_FILE" ] || { EXPECTED=$(cat "$EXPECTED_FILE"; printf .); EXPECTED=${EXPECTED%.}; }
probe() { printf '%s\000' "$#" "$@"; }
probe_in() { printf '%s\000' "1"; cat; printf '\000'; }
"#;

const PROBE: &str = r#"printf '%s\000' "$#" "$@""#;
const PROBE_ENV: &str = r#"printf '%s\000' "1" "$X""#;

impl Shell {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Dash => "dash",
            Self::Bash => "bash",
        }
    }

    pub(crate) fn dialect(self) -> ShellDialect {
        match self {
            Self::Dash => ShellDialect::Posix,
            Self::Bash => ShellDialect::Bash,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

impl Folder {
    /// Makes a fresh folder for a test.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("probe.sh"), PROBE).unwrap();
        fs::write(path.join("env.sh"), PROBE_ENV).unwrap();
        Self { path, files: AtomicUsize::new(0) }
    }

    /// Runs a bound script, which must succeed, and returns what it printed.
    pub(crate) fn run(&self, shell: Shell, bound: &BoundScript, expected: &str) -> Vec<u8> {
        let mut command = Command::new(shell.program());
        command.arg("-c").arg(format!("{PRELUDE}{}", bound.text));
        let output = self.output(command, bound, expected);
        assert!(
            output.status.success(),
            "{shell:?} failed: {}\nscript: {}",
            String::from_utf8_lossy(&output.stderr),
            bound.text
        );
        output.stdout
    }

    /// Runs a bound script, whatever comes of it.
    pub(crate) fn try_run(&self, shell: Shell, bound: &BoundScript) {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "5", shell.program(), "-c", &bound.text]);
        self.output(command, bound, "");
    }

    /// Puts a value into a file of its own.
    pub(crate) fn file(&self, content: &str) -> PathBuf {
        // Threads share the folder.
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = self.path.join(format!("value{number}"));
        fs::write(&file, content).unwrap();
        file
    }

    fn output(&self, mut command: Command, bound: &BoundScript, expected: &str) -> Output {
        command
            .current_dir(&self.path)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(bound.env.iter().map(|(name, value)| (name, value)))
            .envs(bound.files.iter().map(|(name, content)| (name, self.file(content))));
        if expected.len() > 96 * 1024 {
            command.env("EXPECTED_FILE", self.file(expected));
        } else {
            command.env("EXPECTED", expected);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap()
    }

    pub(crate) fn has_canary(&self) -> bool {
        self.path.join("canary").exists()
    }

    /// Whether there is a canary; takes it away, so that the next run can be judged.
    pub(crate) fn take_canary(&self) -> bool {
        fs::remove_file(self.path.join("canary")).is_ok()
    }

    /// Reads a file that a script wrote.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }
}

/// Takes printed records apart: one list of arguments per call of the probe.
pub(crate) fn records(output: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut fields = output.split(|byte| *byte == 0);
    let mut records = Vec::new();
    while let Some(count) = fields.next().filter(|count| !count.is_empty()) {
        let count: usize = String::from_utf8_lossy(count).parse().unwrap();
        records.push(fields.by_ref().take(count).map(<[u8]>::to_vec).collect());
    }
    records
}

/// The roots of all test templates.
pub(crate) fn names() -> VarRoots {
    VarRoots { roots: ["item", "map", "n", "files", "steps"].map(str::to_owned).into() }
}

/// Variables where `item.v` is the value under test.
pub(crate) fn vars(value: impl Into<Value>) -> Vars {
    let mut vars = Vars::default();
    vars.set_field("item", "v", value);
    vars.set("n", 7);
    vars.set("files", serde_json::json!(["a b", "*", "-rf"]));
    vars
}

/// Reads a script that must be accepted.
pub(crate) fn accepted(source: &str, dialect: ShellDialect) -> Script {
    match Script::parse(source, &names(), dialect, false) {
        Ok(script) => script,
        Err(faults) => panic!("refused: {source}\n{faults:#?}"),
    }
}
