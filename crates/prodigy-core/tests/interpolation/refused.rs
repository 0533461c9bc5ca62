//! Commands that are refused when they are read, with the reason and the way out.

use prodigy_core::template::{Script, ShellDialect};

use super::{
    forbidden::{CHOOSES_A_COMMAND, NAMES_AND_SETTINGS, READ_AS_A_PROGRAM},
    probe::names,
};

fn verdicts(templates: &[&str], dialect: ShellDialect) -> String {
    let mut lines = Vec::new();
    for template in templates {
        lines.push(template.replace('\n', "⏎"));
        match Script::parse(template, &names(), dialect, false) {
            Ok(_) => lines.push("  ACCEPTED".to_owned()),
            Err(faults) => lines.extend(faults.into_iter().map(|fault| {
                let marked = &template[fault.range];
                format!("  {marked}: {} ({})", fault.message, fault.help.unwrap_or_default())
            })),
        }
    }
    lines.join("\n")
}

/// Returns the templates that were not refused; messages are for the snapshots.
fn slipped_through(templates: &[&str]) -> Vec<String> {
    [ShellDialect::Posix, ShellDialect::Bash]
        .into_iter()
        .flat_map(|dialect| {
            templates
                .iter()
                .filter(move |template| Script::parse(template, &names(), dialect, false).is_ok())
                .map(move |template| format!("{dialect:?}: {template}"))
        })
        .collect()
}

#[test]
fn a_value_does_not_choose_the_command() {
    insta::assert_snapshot!(
        verdicts(&["${item.v}", "./bin/${item.v} x", "sudo -u me ${item.v}", "$(echo ${item.v}) x", "sh ${item.v}"], ShellDialect::Posix),
        @"
    ${item.v}
      ${item.v}: `${item.v}` stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    ./bin/${item.v} x
      ${item.v}: `${item.v}` stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    sudo -u me ${item.v}
      ${item.v}: `${item.v}` stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    $(echo ${item.v}) x
      ${item.v}: `${item.v}` stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    sh ${item.v}
      ${item.v}: `${item.v}` chooses the program that `sh` runs (write the name of the program)
    "
    );
    assert_eq!(slipped_through(CHOOSES_A_COMMAND), Vec::<String>::new());
}

#[test]
fn a_value_is_not_read_as_a_program() {
    insta::assert_snapshot!(
        verdicts(
            &[
                "eval echo ${item.v}",
                "sh -c \"echo ${item.v}\"",
                "bash -lc 'echo ${item.v}'",
                "awk '/${item.v}/'",
                "awk -v x=${item.v} '{ print x }'",
                "sed s/${item.v}/b/",
                "jq '.${item.v}'",
                "python3 -c 'print(\"${item.v}\")'",
                "ssh host rm ${item.v}",
                "trap 'rm ${item.v}' EXIT",
                "echo `echo ${item.v}`",
                "sh <<EOF\necho ${item.v}\nEOF",
                "echo ${item.v} | sh",
                "cat <<'EOF'\n${item.v}\nEOF",
                "printf \"${item.v}\\n\"",
                "make X=${item.v}",
                "find . -exec sh -c 'echo ${item.v}' \\;",
                "docker run image sh -c \"echo ${item.v}\"",
                "git -c core.pager=${item.v} log",
                "xargs -I{} echo {} ${item.v}",
            ],
            ShellDialect::Posix
        ),
        @r#"
    eval echo ${item.v}
      ${item.v}: `${item.v}` is an argument of `eval`, which reads it as a program (write the command itself instead of building it from text)
    sh -c "echo ${item.v}"
      ${item.v}: `${item.v}` stands in program text that `sh` reads (pass the value as an argument: `sh -c '… "$1" …' sh ${item.v}`)
    bash -lc 'echo ${item.v}'
      ${item.v}: `${item.v}` stands in program text that `bash` reads (pass the value as an argument: `sh -c '… "$1" …' sh ${item.v}`)
    awk '/${item.v}/'
      ${item.v}: `${item.v}` stands in program text that `awk` reads (awk also reads escapes in `-v`; use the environment: `X=${item.v} awk '… ENVIRON["X"] …'`)
    awk -v x=${item.v} '{ print x }'
      ${item.v}: `${item.v}` stands in program text that `awk` reads (awk also reads escapes in `-v`; use the environment: `X=${item.v} awk '… ENVIRON["X"] …'`)
    sed s/${item.v}/b/
      ${item.v}: `${item.v}` stands in program text that `sed` reads (sed can run commands; use `X=${item.v} awk '… ENVIRON["X"] …'`)
    jq '.${item.v}'
      ${item.v}: `${item.v}` stands in program text that `jq` reads (pass the value by name: `jq --arg x ${item.v} '… $x …'`)
    python3 -c 'print("${item.v}")'
      ${item.v}: `${item.v}` stands in program text that `python3` reads (pass the value as an argument: `python3 -c '… sys.argv[1] …' ${item.v}`)
    ssh host rm ${item.v}
      ${item.v}: `${item.v}` is an argument of `ssh`, which the remote shell reads as a program (send the value on standard input: `printf '%s' ${item.v} | ssh host 'cat > file'`)
    trap 'rm ${item.v}' EXIT
      ${item.v}: `${item.v}` is an argument of `trap`, which reads it as a program (put the value into a shell variable first, and use `"$value"` in single quotes)
    echo `echo ${item.v}`
      ${item.v}: `${item.v}` stands between backticks, whose text the shell reads twice (write `$(…)` instead of backticks)
    sh <<EOF⏎echo ${item.v}⏎EOF
      ${item.v}: `${item.v}` stands in text that becomes a program on standard input (pass the value as an argument, or set an environment variable: `X=${item.v} command …`)
    echo ${item.v} | sh
      ${item.v}: `${item.v}` stands in text that becomes a program on standard input (pass the value as an argument, or set an environment variable: `X=${item.v} command …`)
    cat <<'EOF'⏎${item.v}⏎EOF
      ${item.v}: `${item.v}` stands in a here-document with a quoted end mark, where the shell expands nothing (take the quotes off the end mark and write `\$` for a literal `$`)
    printf "${item.v}\n"
      ${item.v}: `${item.v}` stands in the format of `printf`, which gives `%` and `\` a meaning (write `printf '%s\n' ${item.v}`)
    make X=${item.v}
      ${item.v}: `${item.v}` is read by `make`, which runs `$(shell …)` in values (use the environment: `X=${item.v} make …`, and `"$$X"` in the recipe)
    find . -exec sh -c 'echo ${item.v}' \;
      ${item.v}: `${item.v}` stands in program text that `sh` reads (pass the value as an argument: `sh -c '… "$1" …' sh ${item.v}`)
    docker run image sh -c "echo ${item.v}"
      ${item.v}: `${item.v}` stands in program text that `sh` reads (pass the value as an argument: `sh -c '… "$1" …' sh ${item.v}`)
    git -c core.pager=${item.v} log
      ${item.v}: `${item.v}` is read by git as a setting or a command to run (write the setting or the command itself)
    xargs -I{} echo {} ${item.v}
      ${item.v}: `${item.v}` is an argument of `xargs -I`, which replaces parts of it (use a loop: `while read -r line; do …; done`)
    "#
    );
    assert_eq!(slipped_through(READ_AS_A_PROGRAM), Vec::<String>::new());
}

#[test]
fn a_value_is_no_name_and_changes_no_setting() {
    insta::assert_snapshot!(
        verdicts(
            &[
                "export ${item.v}",
                "read ${item.v}",
                "unset ${item.v}",
                "PATH=${item.v}:$PATH ls",
                "declare -i x=${item.v}",
                "declare -i x; x=${item.v}",
                "x=(1); declare x=${item.v}",
                "for ${item.v} in a; do :; done",
                "a[${item.v}]=1",
                "${item.v}() { :; }",
                "echo ${a[${item.v}]}",
                "echo ${x/a/${item.v}}",
                "[[ -v ${item.v} ]]",
            ],
            ShellDialect::Bash
        ),
        @"
    export ${item.v}
      ${item.v}: `${item.v}` stands where the name of a variable is expected (write the name; bash would run a command hidden in a subscript)
    read ${item.v}
      ${item.v}: `${item.v}` stands where the name of a variable is expected (write the name; bash would run a command hidden in a subscript)
    unset ${item.v}
      ${item.v}: `${item.v}` stands where the name of a variable is expected (write the name; bash would run a command hidden in a subscript)
    PATH=${item.v}:$PATH ls
      ${item.v}: `${item.v}` would set `PATH`, which changes what programs run (choose another name, or set a fixed value)
    declare -i x=${item.v}
      ${item.v}: `${item.v}` is assigned to a variable that bash evaluates: an integer, a list or a name reference (use a plain variable of another name: `value=${item.v}`)
    declare -i x; x=${item.v}
      ${item.v}: `${item.v}` is assigned to a variable that bash evaluates: an integer, a list or a name reference (use a plain variable of another name: `value=${item.v}`)
    x=(1); declare x=${item.v}
      ${item.v}: `${item.v}` is assigned to a variable that bash evaluates: an integer, a list or a name reference (use a plain variable of another name: `value=${item.v}`)
    for ${item.v} in a; do :; done
      ${item.v}: `${item.v}` stands where a fixed name is expected (write the name, or keep the value in an argument)
    a[${item.v}]=1
      ${item.v}: `${item.v}` stands in the name of a variable (write the name, and keep the value on the right of `=`)
    ${item.v}() { :; }
      ${item.v}: `${item.v}` stands where a fixed name is expected (write the name, or keep the value in an argument)
    echo ${a[${item.v}]}
      ${item.v}: `${item.v}` stands in a subscript, which bash evaluates as a program (put the value into a shell variable first, or loop over the list)
    echo ${x/a/${item.v}}
      ${item.v}: `${item.v}` stands inside a `${…}` of the shell, where quoting is not reliable (put the value into a shell variable first: `value=${item.v}`)
    [[ -v ${item.v} ]]
      ${item.v}: `${item.v}` stands where a fixed name is expected (write the name, or keep the value in an argument)
    "
    );
    assert_eq!(slipped_through(NAMES_AND_SETTINGS), Vec::<String>::new());
}

#[test]
fn what_is_no_reference_is_explained() {
    insta::assert_snapshot!(
        verdicts(
            &[
                "echo ${item%.rs}",
                "echo ${item.v%.rs}",
                "echo ${#item}",
                "echo ${!item}",
                "echo ${itme.v}",
                "echo ${item.v:-$HOME}",
                "echo ${item.v|raw}",
                "echo ${item.v|wrods}",
                "echo \"${item.v|words}\"",
                "echo --x=${item.v|words}",
                "x=${item.v|words}",
                "echo > ${item.v|words}",
                "sed ${item.v|words} file",
                "echo ${item.v",
                "echo ${item.v:=x}",
                "echo $'a ${item.v}'",
                "echo ${a.b} ${item.v|nope} && ${item.v}",
            ],
            ShellDialect::Posix
        ),
        @r#"
    echo ${item%.rs}
      ${item%.rs}: unexpected `%` after `item` (the shell's operators work on shell variables only: put the value into one with `value=${item}`, then use `${value…}`)
    echo ${item.v%.rs}
      ${item.v%.rs}: unexpected `%` after `item.v` (the shell's operators work on shell variables only: put the value into one with `value=${item.v}`, then use `${value…}`)
    echo ${#item}
      ${#item}: `${#item…}` is for shell variables, and `item` is not one (write `${item|length}`, or `$${#item}` for the shell's own)
    echo ${!item}
      ${!item}: `${!item…}` is for shell variables, and `item` is not one (write `$${!item}` for the shell's own)
    echo ${itme.v}
      ${itme.v}: unknown variable `itme` (did you mean `item`?)
    echo ${item.v:-$HOME}
      ${item.v:-$HOME}: a default is plain text: the shell does not expand it (set the value in an earlier step, or in `env`)
    echo ${item.v|raw}
      ${item.v|raw}: the filter `raw` makes the value a part of the program (set `allow_raw: true` on the step if every possible value can be trusted like code)
    echo ${item.v|wrods}
      ${item.v|wrods}: unknown filter `wrods` (did you mean `words`?)
    echo "${item.v|words}"
      ${item.v|words}: `${item.v}` has the filter `words`, which only works outside of quotes (leave `|words` out, or move the reference to a place of its own)
    echo --x=${item.v|words}
      ${item.v|words}: `${item.v}` has the filter `words`, so it must stand alone and not touch other text (leave `|words` out, or move the reference to a place of its own)
    x=${item.v|words}
      ${item.v|words}: `${item.v}` has the filter `words`, so it must stand alone and not touch other text (leave `|words` out, or move the reference to a place of its own)
    echo > ${item.v|words}
      ${item.v|words}: `${item.v}` has the filter `words`, but a redirection takes one word (leave `|words` out, or move the reference to a place of its own)
    sed ${item.v|words} file
      ${item.v|words}: `${item.v}` stands in program text that `sed` reads (sed can run commands; use `X=${item.v} awk '… ENVIRON["X"] …'`)
    echo ${item.v
      ${item.v: `${` is never closed (write `$${` for a literal `${`)
    echo ${item.v:=x}
      ${item.v:=x}: unexpected `:` after `item.v` (the shell's operators work on shell variables only: put the value into one with `value=${item.v}`, then use `${value…}`)
    echo $'a ${item.v}'
      ${item.v}: `${item.v}` stands in `$'…'`, which not every `sh` knows (use `"…"`, or set `shell_program: bash`)
    echo ${a.b} ${item.v|nope} && ${item.v}
      ${a.b}: unknown variable `a` (write `$${` for a literal `${`; the variables here are `files`, `item`, `map`, `n`, `steps`)
      ${item.v|nope}: unknown filter `nope` (the filters are `json`, `lower`, `upper`, `trim`, `length`, `lines`, `path`, `words`, `file`, `raw`)
      ${item.v}: `${item.v}` stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    "#
    );
}
