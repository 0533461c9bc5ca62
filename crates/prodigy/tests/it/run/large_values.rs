//! Values that are too big for an environment variable, in shell steps.

use insta::assert_snapshot;

use crate::fixture::workflow::{run, world};

/// Makes 300 KiB of what a shell would love to run, with line breaks at the end,
/// keeps it in a file and prints it as JSON.
const MAKE: &str = r#"
import json
hostile = "$(touch canary)`touch canary`'\"\\ ;touch canary; * ~ ${x}\n"
text = hostile * (300 * 1024 // len(hostile) + 1) + "end\n\n"
open("original", "w").write(text)
print(json.dumps(text))
"#;

#[test]
fn a_captured_value_of_any_size_can_be_used_in_quotes_and_here_documents() {
    let world = world(
        r#"
steps:
  - id: make
    shell: python3 make.py
    capture: text
    capture_format: json
  - shell: |
      set -eu
      printf '%s' '${text}' > single
      printf '%s' "${text}" > double
      printf '%s' ${text} > bare
      cat > here <<END
      ${text}END
      END
      printf END >> original
      for copy in single double bare; do printf END >> $copy; cmp original $copy; done
      printf '\n' >> original; cmp original here
      test "$(wc -c < original)" -gt 307200 && test ! -e canary
  - shell: test ${text} = "$(cat bare | sed '$d')"$'\n\n' && test ! -e canary
    shell_program: bash
  - foreach:
      input: printf '%s' ${text} | tail -n 2
      do:
        - shell: test ${item} = end
  - shell: /bin/echo ${text}
  - shell: echo not reached
"#,
    );
    world.write("make.py", MAKE);
    world.commit_all("Add a program");
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 6 steps
    ✓ 1 shell: python3 make.py  [time]
    ✓ 2 shell: set -eu  [time]
    ✓ 3 shell: test ${text} = "$(cat bare | sed '$d')"$'\n\n' && test ! -e…  [time]
    ✓ 4 foreach  [time]
    ✗ 5 shell: /bin/echo ${text}: exit code 126

    failed at step 5: exit code 126 · 4 of 6 steps done
      | sh: 1: /bin/echo: Argument list too long
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 5
    next: prodigy resume job
    [exit 1]
    "#);
}
