//! `cargo xtask model`: the scripted model, for a person to try real agents with.

use std::io;

use prodigy_testkit::model::{ModelBehaviour, ModelScript, ScriptedModel};

use crate::{error::Error, program::print_note};

/// Run a model that costs nothing, for real agents to talk to
///
/// It does what `mode=NAME` in the prompt says. Ends with the end of its input, i.e. Ctrl-D.
#[derive(clap::Args, Debug)]
pub(crate) struct ModelArgs {
    /// The port to listen on; the system chooses without it
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Behaviour for prompts that name none
    #[arg(long, default_value = "commit", value_parser = behaviour)]
    mode: ModelBehaviour,
}

fn behaviour(name: &str) -> Result<ModelBehaviour, String> {
    ModelBehaviour::from_name(name).ok_or_else(|| "there is no such mode".to_owned())
}

pub(crate) fn run(args: &ModelArgs) -> Result<(), Error> {
    let script = ModelScript::new(args.mode.clone());
    let model = ScriptedModel::start_at(script, args.port).map_err(Error::Model)?;
    print_note(format_args!("ANTHROPIC_BASE_URL={}", model.url()));
    print_note(format_args!("base_url of a provider for codex: {}", model.responses_url()));
    // Nothing is read: the end of the input is all that is waited for.
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map_err(Error::Model)?;
    Ok(())
}
