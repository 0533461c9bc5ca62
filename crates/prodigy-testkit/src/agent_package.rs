//! The real agents that tests run: which, at which version, and where.

use std::{
    env::{self, consts},
    path::{Path, PathBuf},
};

/// The version of Claude Code.
const CLAUDE: &str = "2.1.325";

/// The version of Codex.
const CODEX: &str = "0.166.0";

/// The checksums of the packages of Claude Code, as the registry gives them.
const CLAUDE_SUMS: &[(&str, &str)] = &[
    (
        "linux-x64",
        "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
    ),
    (
        "linux-arm64",
        "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw==",
    ),
    (
        "darwin-x64",
        "sha512-+wTK42IT/b5GZHxAVVMLNnCHG/CtngztTE6fNn5s4h47LNXrDQz2RpPLsY5XHr8astNzk7GWPU8GecCG+5EEIQ==",
    ),
    (
        "darwin-arm64",
        "sha512-Ds1f1B+qy2BWDI+VnmDHwkNyTbXCwFrBtrinPD95RBmUubFJu9nCzMgn+wrg5VwwF6vtkkzGexogneZIYZKb6A==",
    ),
];

/// The checksums of the packages of Codex.
const CODEX_SUMS: &[(&str, &str)] = &[
    (
        "linux-x64",
        "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw==",
    ),
    (
        "linux-arm64",
        "sha512-w0ScAsBr9aZKtIFrh6HN6KU2yjKKeSCzYfbb7DB0Ccj4BYPzeZtUeQprbycLCwuX3AFQdbdjapmLho2iot74jQ==",
    ),
    (
        "darwin-x64",
        "sha512-Vj5wXJPizKmrzNtnRNQf9PP6FJkG3iJU/UO3NE4WvkENZGoQfmImdwf4MVRI5NgwjSuC6LT0HbBRHPVVnwGHuw==",
    ),
    (
        "darwin-arm64",
        "sha512-5fWH6qqUInACcRADIewjlnRxDb4QLe0uriwehiZz0+viuAAB8I+WWefqw4xwHvyKaxeiGX4uK56+vrgfvFk3FQ==",
    ),
];

/// An agent's package in the registry of npm: a program for one kind of machine.
#[derive(Clone, Debug)]
pub struct AgentPackage {
    /// The agent's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Where to get it.
    pub url: String,
    /// The checksum of the package; `None` on an unknown kind of machine.
    pub integrity: Option<&'static str>,
    /// The program in it.
    program: String,
}

impl AgentPackage {
    /// Returns Claude Code, for this machine.
    pub fn claude() -> Self {
        let package = format!("claude-code-{}", platform());
        Self {
            name: "claude",
            version: CLAUDE,
            url: registry(&format!("@anthropic-ai/{package}/-/{package}-{CLAUDE}.tgz")),
            integrity: integrity(CLAUDE_SUMS),
            program: "claude".to_owned(),
        }
    }

    /// Returns Codex, for this machine.
    pub fn codex() -> Self {
        let vendor = if consts::OS == "macos" { "apple-darwin" } else { "unknown-linux-musl" };
        Self {
            name: "codex",
            version: CODEX,
            url: registry(&format!("@openai/codex/-/codex-{CODEX}-{}.tgz", platform())),
            integrity: integrity(CODEX_SUMS),
            program: format!("vendor/{}-{vendor}/bin/codex", consts::ARCH),
        }
    }

    /// Returns the directory that the package is unpacked to.
    pub fn directory(&self) -> PathBuf {
        directory().join(format!("{}-{}", self.name, self.version))
    }

    /// Returns the program; it may not be there.
    pub fn program(&self) -> PathBuf {
        self.directory().join(&self.program)
    }

    /// Returns the program; without it, the test fails and says how to get it.
    fn require_program(&self) -> PathBuf {
        let program = self.program();
        assert!(
            program.is_file(),
            "`{}` {} is not there ({}): run `cargo xtask test` or `cargo xtask tools`",
            self.name,
            self.version,
            program.display()
        );
        program
    }
}

/// Returns the real Claude Code; a test without it fails and says how to get it.
pub fn claude() -> PathBuf {
    AgentPackage::claude().require_program()
}

/// Returns the real Codex; a test without it fails and says how to get it.
pub fn codex() -> PathBuf {
    AgentPackage::codex().require_program()
}

/// Returns where the agents are: `PRODIGY_TEST_AGENTS`, or beside what cargo builds.
fn directory() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    env::var_os("PRODIGY_TEST_AGENTS")
        .map_or_else(|| root.join(built).join("agents"), |chosen| root.join(chosen))
}

/// Returns this kind of machine, as packages name it.
fn platform() -> String {
    let system = if consts::OS == "macos" { "darwin" } else { consts::OS };
    let processor = match consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

fn integrity(sums: &[(&str, &'static str)]) -> Option<&'static str> {
    let platform = platform();
    sums.iter().find(|(name, _)| *name == platform).map(|(_, sum)| *sum)
}

fn registry(path: &str) -> String {
    format!("https://registry.npmjs.org/{path}")
}
