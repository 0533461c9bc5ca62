//! Claude Code, without a terminal.

#[cfg(test)]
mod tests;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::SystemTime,
};

use prodigy_core::{
    agent::{StreamDialect, TokenPrices, VERDICT_SCHEMA},
    failure::{Failure, ReasonCode},
    workflow::{AgentKind, AgentOptions, ClaudeAgent, PermissionMode},
};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};

use super::{
    Agent, AgentExit, AgentLaunch, AgentReport, AgentRequest, outcome, scratch_file, variable,
};

/// The variables set unless the user did: no other traffic, and few retries, since prodigy waits.
const SETTINGS: &[(&str, &str)] = &[
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "2"),
    ("DISABLE_AUTOUPDATER", "1"),
];

/// The variable that lets `CLAUDE.md` count of directories that are named with `--add-dir`.
const PROSE_OF_DIRECTORIES: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";

/// The longest name of a directory that holds sessions; behind it the names are cut.
const LONGEST_PROJECT: usize = 200;

/// Claude Code.
pub(super) struct ClaudeDriver {
    config: ClaudeAgent,
    is_root: bool,
}

impl ClaudeDriver {
    pub(super) fn new(config: ClaudeAgent) -> Self {
        Self { config, is_root: rustix::process::geteuid().is_root() }
    }

    fn arguments(&self, request: &AgentRequest<'_>) -> Result<Vec<OsString>, Failure> {
        let AgentOptions {
            model,
            fallback_model,
            permission_mode,
            allowed_tools,
            disallowed_tools,
            max_turns,
            max_budget_usd,
            system_prompt: _,
            output_schema,
            is_judge,
            given: _,
        } = request.options;
        let mut argv: Vec<OsString> =
            ["-p", "--output-format=stream-json", "--verbose"].map(OsString::from).into();
        // A value that is joined to its flag can never be taken for a flag itself.
        let mut add = |flag: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{flag}="));
            word.push(value);
            argv.push(word);
        };
        let session = if request.session.resume { "resume" } else { "session-id" };
        add(session, request.session.id.as_ref());
        let mode = permission_mode.unwrap_or(PermissionMode::AcceptEdits);
        if let Some(mode) = spelled(mode) {
            add("permission-mode", mode.as_ref());
        }
        for (flag, value) in [("model", model), ("fallback-model", fallback_model)] {
            if let Some(value) = value {
                add(flag, value.as_ref());
            }
        }
        for (flag, tools) in
            [("allowedTools", allowed_tools), ("disallowedTools", disallowed_tools)]
        {
            for tool in tools.iter().flatten() {
                add(flag, tool.as_ref());
            }
        }
        if let Some(turns) = max_turns {
            add("max-turns", turns.to_string().as_ref());
        }
        if let Some(most) = min_amount(*max_budget_usd, request.budget_usd) {
            add("max-budget-usd", most.to_string().as_ref());
        }
        if let Some(schema) = output_schema {
            add("json-schema", schema.source().to_string().as_ref());
        } else if *is_judge {
            add("json-schema", VERDICT_SCHEMA.as_ref());
        }
        if let Some(text) = request.system_prompt {
            // In a file it is not seen in a listing of processes, and may be of any length.
            let file = scratch_file(request, "system-prompt.md", text)?;
            add("append-system-prompt-file", file.as_os_str());
        }
        if request.is_untrusted {
            // Nothing of the repository is read then, so what it tells in prose is named again.
            add("setting-sources", "user".as_ref());
            add("add-dir", request.cwd.as_os_str());
            argv.push("--strict-mcp-config".into());
        }
        if mode == PermissionMode::Bypass {
            argv.push("--dangerously-skip-permissions".into());
        }
        argv.extend(self.config.args.iter().map(OsString::from));
        Ok(argv)
    }
}

impl Agent for ClaudeDriver {
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure> {
        let is_bypassed = request.options.permission_mode == Some(PermissionMode::Bypass);
        let is_sandbox = variable(request.env, "IS_SANDBOX").is_some_and(|value| value == "1");
        if is_bypassed && self.is_root && !is_sandbox {
            return Err(Failure::new(ReasonCode::PermissionDenied, ROOT));
        }
        let mut argv: Vec<OsString> = self.config.command.iter().map(OsString::from).collect();
        argv.extend(self.arguments(request)?);
        let mut env: Vec<(OsString, OsString)> = SETTINGS
            .iter()
            .filter(|(name, _)| variable(request.env, name).is_none())
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        if request.is_untrusted {
            env.push((PROSE_OF_DIRECTORIES.into(), "1".into()));
        }
        if self.config.config_dir.is_some()
            && let Some(home) = self.config_dir(request.env)
        {
            env.push(("CLAUDE_CONFIG_DIR".into(), home.into()));
        }
        let stdin = request.prompt.as_bytes().to_vec();
        Ok(AgentLaunch { argv, stdin, env, dialect: Some(StreamDialect::Claude) })
    }

    fn evaluate(&self, traces: &AgentExit<'_>) -> AgentReport {
        outcome::evaluate_stream(traces)
    }

    fn program(&self) -> Option<&str> {
        self.config.command.first().map(String::as_str)
    }

    fn kind(&self) -> AgentKind {
        AgentKind::Claude
    }

    fn access_hint(&self) -> String {
        "run `claude` and type `/login`, or set `ANTHROPIC_API_KEY` to a valid key".to_owned()
    }

    fn prices(&self) -> Option<&TokenPrices> {
        self.config.prices.as_ref()
    }

    fn options(&self) -> Option<&AgentOptions> {
        Some(&self.config.options)
    }

    fn config_dir(&self, env: &[(OsString, OsString)]) -> Option<PathBuf> {
        let own_home = || variable(env, "HOME").map(PathBuf::from);
        if let Some(directory) = &self.config.config_dir {
            return match directory.strip_prefix("~/") {
                Some(rest) => own_home().map(|home| home.join(rest)),
                None => Some(PathBuf::from(directory)),
            };
        }
        let set = variable(env, "CLAUDE_CONFIG_DIR").filter(|set| !set.is_empty());
        set.map(PathBuf::from).or_else(|| own_home().map(|home| home.join(".claude")))
    }

    /// Looks for the transcript, and puts a copy where the program looks first.
    ///
    /// A session belongs to the directory that it was begun in, and an item that is tried again
    /// may be in another one. Of several transcripts the last one counts.
    fn restore_session(&self, session: &str, cwd: &Path, directory: &Path) -> bool {
        let here = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let project = Some(project_name(&here)).filter(|name| name.len() <= LONGEST_PROJECT);
        restore_transcript(&directory.join("projects"), session, project.as_deref())
    }
}

/// The error message for root, to whom Claude Code refuses to run with `bypass`.
const ROOT: &str = "Claude Code refuses `permission_mode: bypass` to root: run prodigy as another \
    user, or set `env: {IS_SANDBOX: \"1\"}` where nothing can be harmed";

/// Returns the program's word for a mode, if it has one.
fn spelled(mode: PermissionMode) -> Option<&'static str> {
    match mode {
        PermissionMode::Default => Some("default"),
        PermissionMode::AcceptEdits => Some("acceptEdits"),
        PermissionMode::Plan => Some("plan"),
        PermissionMode::Bypass => None,
    }
}

/// Returns the lower of two amounts.
pub(super) fn min_amount(first: Option<f64>, second: Option<f64>) -> Option<f64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second),
    }
}

/// Returns the name of the directory that holds the sessions begun in a directory.
fn project_name(directory: &Path) -> String {
    let letters = directory.to_string_lossy();
    letters
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect()
}

/// Returns whether there is a transcript of a session, and puts a copy into the directory of a
/// project unless the last one is there.
///
/// `projects` holds a directory for each project; `wanted` is the name of one of them, if the
/// program would find a copy there.
pub(super) fn restore_transcript(projects: &Path, session: &str, wanted: Option<&str>) -> bool {
    let Ok(projects) = directory(CWD, projects.as_os_str(), OFlags::empty()) else { return false };
    let name = format!("{session}.jsonl");
    let Some((project, transcript)) = last(&projects, &name) else { return false };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != project) {
        // Without the copy, the program may still find the one elsewhere.
        copy(transcript, &projects, wanted, &name).ok();
    }
    true
}

/// Returns the last of the transcripts of a session, and the project that it is in.
fn last(projects: &OwnedFd, name: &str) -> Option<(String, File)> {
    let entries = Dir::read_from(projects).ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let project = entry.file_name().to_str().ok()?.to_owned();
        let inside = directory(projects, OsStr::new(&project), OFlags::NOFOLLOW).ok()?;
        let (transcript, modified) = transcript(&inside, name)?;
        Some((modified, project, transcript))
    });
    let last = found.max_by(|(first, ..), (second, ..)| first.cmp(second));
    last.map(|(_, project, transcript)| (project, transcript))
}

/// Opens a transcript, if it is a file, and says when it was changed.
fn transcript(project: &OwnedFd, name: &str) -> Option<(File, SystemTime)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(project, name, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, meta.modified().ok()?))
}

/// Copies a transcript, in one go as others see it.
fn copy(mut from: File, projects: &OwnedFd, wanted: &str, name: &str) -> io::Result<()> {
    match mkdirat(projects, wanted, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let project = directory(projects, OsStr::new(wanted), OFlags::NOFOLLOW)?;
    let draft = format!("{name}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = openat(&project, &draft, flags, Mode::RUSR | Mode::WUSR)?;
    let copied = io::copy(&mut from, &mut File::from(to))
        .and_then(|_| Ok(renameat(&project, &draft, &project, name)?));
    if copied.is_err() {
        unlinkat(&project, &draft, AtFlags::empty()).ok();
    }
    copied
}

fn directory(at: impl AsFd, name: &OsStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(at, name, OFlags::DIRECTORY | OFlags::CLOEXEC | more, Mode::empty())
}
