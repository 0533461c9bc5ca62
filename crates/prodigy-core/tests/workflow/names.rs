//! Which names a text may use, and which it may not.

use crate::support::{errors, workflow};

#[test]
fn captured_names_and_namespaces_are_known_in_prompts() {
    workflow(
        r#"
parameters: {who: {type: string}}
steps:
  - {id: first, shell: a, capture: one}
  - {shell: b, on_failure: {commands: [{shell: c, capture: two}], capture: {three: output}}}
  - {shell: d, on_success: {shell: e, capture: four}, on_exit_code: {2: {shell: f, capture: five}}}
  - foreach: {input: [x], do: [{shell: "g ${item}", capture: six}]}
  - {shell: h, validate: {commands: [{shell: i, capture: seven}], on_incomplete: {commands: [{shell: j, capture: eight}]}}}
  - claude: ${one} ${two} ${three} ${four} ${five} ${six} ${seven} ${eight}
  - claude: ${shell.output} ${claude.output} ${last.output} ${error.message} ${validation.gaps}
  - claude: ${steps.first.output} ${workflow.job_id} ${env.HOME} ${params.who}
merge:
  - claude: ${merge.source_branch} ${one}
"#,
    );
}

#[test]
fn a_name_is_known_only_where_it_exists() {
    insta::assert_snapshot!(errors("
mode: mapreduce
setup:
  - claude: one ${item} ${map.total}
map:
  input: a.json
  agent_template:
    - {shell: a, capture: mine}
    - claude: two ${mine} ${map.total}
reduce:
  - claude: three ${mine}
  - claude: four ${item}
  - {shell: b, capture: ours}
merge:
  - claude: five ${ours} ${map.total} ${mine}
"), @"
    main.yml:4:17: error: unknown variable `item`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `last`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    main.yml:4:25: error: unknown variable `map`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `last`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    main.yml:9:27: error: unknown variable `map`
        write `$${` for a literal `${`; the variables here are `agent_id`, `claude`, `env`, `error`, `item`, `item_id`, `item_index`, `item_total`, `last`, `mine`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    main.yml:11:19: error: unknown variable `mine`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `last`, `map`, `ours`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    main.yml:12:18: error: unknown variable `item`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `last`, `map`, `ours`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    main.yml:15:39: error: unknown variable `mine`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `last`, `map`, `merge`, `ours`, `params`, `setup`, `shell`, `steps`, `validation`, `workflow`
    ");
    insta::assert_snapshot!(errors("- claude: ${item} ${index} ${merge.worktree} ${setup.x}\n"), @"
    main.yml:1:28: error: unknown variable `merge`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    main.yml:1:46: error: unknown variable `setup`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    ");
}

#[test]
fn a_shell_keeps_the_names_that_are_its_own() {
    workflow("- shell: for item in a b; do echo ${item} ${HOME}; done\n");
}

#[test]
fn fields_that_do_not_exist_are_errors() {
    insta::assert_snapshot!(errors("
parameters: {who: {type: string}}
steps:
  - {id: build, shell: a}
  - claude: ${steps.biuld.output} ${steps.build.outptu} ${steps.build.output.x}
  - shell: echo ${params.woh} ${workflow.nam}
    when: ${steps.other.status} == 'x' && params.whom == 'y'
  - claude: ${workflow.started:-unknown} ${steps.gone.output:-none}
"), @"
    main.yml:5:13: error: no step has the id `biuld`
        did you mean `build`?
    main.yml:5:35: error: a step has no `outptu`
        did you mean `output`?
    main.yml:6:17: error: no parameter is called `woh`
        did you mean `who`?
    main.yml:6:31: error: `workflow` has no `nam`
        did you mean `name`?
    main.yml:7:11: error: no step has the id `other`
    main.yml:7:43: error: no parameter is called `whom`
        did you mean `who`?
    main.yml:8:42: error: no step has the id `gone`
    ");
    insta::assert_snapshot!(errors(r#"
mode: mapreduce
setup: {commands: [{shell: a}], capture_outputs: {count: 0}}
map: {input: a.json, agent_template: [{claude: "${setup.cuont}"}]}
reduce: [{claude: "${map.succesful} ${map.results}"}]
merge: [{claude: "${merge.branch}"}]
"#), @"
    main.yml:4:49: error: `setup` has no `cuont`
        did you mean `count`?
    main.yml:5:20: error: `map` has no `succesful`
        did you mean `successful`?
    main.yml:6:19: error: `merge` has no `branch`
    ");
}

#[test]
fn undeclared_parameters_are_known_to_nobody_without_declarations() {
    workflow("- claude: ${params.anything}\n");
}

#[test]
fn a_captured_name_may_not_hide_a_namespace() {
    insta::assert_snapshot!(errors("
- {shell: a, capture: item}
- {shell: b, capture: {steps: {}}}
- {shell: c, on_failure: {shell: d, capture: {error: x}}}
"), @"
    main.yml:2:23: error: the variable `item` would hide `${item}`
        choose another name
    main.yml:3:24: error: the variable `steps` would hide `${steps}`
        choose another name
    main.yml:4:47: error: the variable `error` would hide `${error}`
        choose another name
    ");
}

#[test]
fn an_id_is_used_once() {
    insta::assert_snapshot!(errors("
- {id: a, shell: a}
- foreach: {input: [x], do: [{id: a, shell: b}]}
- {id: b, shell: c, on_failure: [{id: b, shell: d}]}
"), @"
    main.yml:3:35: error: there is another step with the id `a`
    main.yml:4:39: error: there is another step with the id `b`
    ");
}
