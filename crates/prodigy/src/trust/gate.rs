//! Refusing what is not trusted before anything starts.

use std::path::Path;

use prodigy_core::workflow::{AgentConfig, AgentKind, StepAction, Workflow, step_label};
use prodigy_engine::trust::{TrustedFiles, claude_files, is_command};

use super::{ContentFile, ContentSource, RepoContent, VARIABLE, store};
use crate::{
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
};

/// Refuses content that a command needs and that is not trusted.
pub(crate) fn require_trust(content: &RepoContent, source: ContentSource) -> Result<(), CliError> {
    let untrusted = content.untrusted(source);
    if untrusted.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = untrusted.iter().map(|file| one_line(&file.line())).collect();
    let message = format!(
        "this repository brings in programs or permissions that you have not trusted\n  {}",
        lines.join("\n  ")
    );
    Err(CliError::new(Exit::Invalid, message).with_hint(trust_command(content)))
}

/// Says what of the repository holds in a run, and what is left out.
pub(crate) fn announce(content: &RepoContent, agents: &[(&str, AgentConfig)], out: &mut Console) {
    for file in &content.files {
        if file.source == ContentSource::Config && file.is_trusted {
            out.note(format_args!("note: trusted: {}", one_line(&file.line())));
        }
    }
    let untrusted = content.untrusted(ContentSource::Claude);
    let is_needed = agents.iter().any(|(_, agent)| agent.kind() == AgentKind::Claude);
    if untrusted.is_empty() || !is_needed {
        return;
    }
    let names: Vec<_> = untrusted.iter().map(|file| one_line(&file.line())).collect();
    out.note(format_args!(
        "note: Claude Code runs without the settings, commands, skills and MCP servers of this \
         repository, because you have not trusted {}; {}",
        names.join(", "),
        trust_command(content)
    ));
}

/// Refuses prompts that name a command of the repository, if the commands are left out.
pub(crate) fn refuse_commands(
    content: &RepoContent,
    checkout: &Path,
    workflow: &Workflow,
    agents: &[(&str, AgentConfig)],
) -> Result<(), CliError> {
    if content.untrusted(ContentSource::Claude).is_empty() {
        return Ok(());
    }
    let is_claude = |name: &str| {
        let found = agents.iter().find(|(known, _)| *known == name);
        found.is_some_and(|(_, agent)| agent.kind() == AgentKind::Claude)
    };
    let mut refused = None;
    workflow.visit_steps(&mut |step| {
        if let StepAction::Agent { agent, prompt, .. } = &step.action
            && is_claude(agent)
            && is_command(prompt.source(), checkout)
        {
            refused.get_or_insert_with(|| step_label(step));
        }
    });
    let Some(step) = refused else { return Ok(()) };
    let files = content.untrusted(ContentSource::Claude);
    let lines: Vec<_> = files.iter().map(|file| one_line(&file.line())).collect();
    let message = format!(
        "`{step}` is a command of this repository, and you have not trusted its settings for \
         Claude Code\n  {}",
        lines.join("\n  ")
    );
    Err(CliError::new(Exit::Invalid, message).with_hint(trust_command(content)))
}

/// Returns the content that agents may take settings from in a run.
pub(crate) fn trusted_for(content: &RepoContent, checkout: &Path) -> TrustedFiles {
    let now = content.files.iter().filter(|file| file.is_trusted).map(|file| file.file.clone());
    let trusted = store::all_trusted(&content.root).into_iter().chain(now);
    // The worktree of a job has what is committed, so the checkout is as near as can be told.
    TrustedFiles::new(trusted, claude_files(checkout, true))
}

/// Returns what the repository brings in, one line for each file, and whether it is trusted.
pub(crate) fn lines(content: &RepoContent) -> Vec<String> {
    let line = |file: &ContentFile| {
        let state = if file.is_trusted { "trusted" } else { "not trusted" };
        format!("{state}: {}", one_line(&file.line()))
    };
    let mut lines: Vec<_> = content.files.iter().map(line).collect();
    if !content.is_trusted() {
        lines.push(trust_command(content));
    }
    lines
}

/// Notes content that is not trusted, and that a command which runs nothing of it met.
pub(crate) fn note_untrusted(content: &RepoContent, out: &mut Console) {
    for file in content.files.iter().filter(|file| !file.is_trusted) {
        out.note(format_args!("note: not trusted: {}", one_line(&file.line())));
    }
}

/// Returns what to type to trust the content.
fn trust_command(content: &RepoContent) -> String {
    let hash = content.hash();
    format!(
        "`prodigy trust --show` shows it; `prodigy trust {hash}` trusts it, and so does \
         `{VARIABLE}={hash}`"
    )
}
