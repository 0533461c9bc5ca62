//! Real Claude Code in prodigy's sandbox, with everything allowed and with nothing allowed.

use insta::assert_snapshot;
use prodigy_testkit::{
    killing::check_processes,
    model::{Behaviour, ModelScript, ScriptedModel},
};

use crate::{
    map_world::{assert_code, go, of_type},
    real_world::{CLAUDE, claude_world, deaths},
};

#[test]
fn claude_works_and_commits_in_the_sandbox_and_writes_nowhere_else() {
    let reach = r#"cd "$(git rev-parse --git-common-dir)/.."; echo planted >> README.md"#;
    let script = ModelScript::new(Behaviour::Commit)
        .on("item=reaches", Behaviour::Shell(reach.to_owned()))
        .on("item=plans", Behaviour::Edit);
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
sandbox: bubblewrap
map:
  input: {{ items: [works, reaches, plans] }}
  item_key: item
  agent_template:
    - claude: "Work. item=${{item}}"
      when: "item == 'works'"
      commit_required: true
    - claude: "Work. item=${{item}}"
      when: "item == 'reaches'"
      permission_mode: bypass
    - claude: "Work. item=${{item}}"
      when: "item == 'plans'"
      permission_mode: plan
"#
        ),
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(world.read("works.txt"), "works is done\n");
    // Nothing but the sandbox kept it from writing to the checkout.
    let requests = model.requests();
    let reached = requests.iter().rfind(|request| request.item() == "reaches").unwrap();
    assert!(reached.body.to_string().contains("README.md: Read-only file system"));
    assert_eq!(world.read("README.md"), "# fixture\n");
    assert!(!world.repo().join("plans.txt").exists());
    assert_snapshot!(deaths(&world), @"plans permission_denied: the agent changed nothing: it was not allowed to use `Write`");
    assert_eq!(of_type(&world, "checkout_changed").len(), 0);
    check_processes(&world).unwrap();
}
