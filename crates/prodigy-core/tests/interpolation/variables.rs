//! Values that reach a program, arithmetic or a name through a shell variable.

use prodigy_core::template::{Script, ShellDialect};

use super::probe::{Folder, SHELLS, Shell, accepted, names, vars};

/// Templates in which a value goes through a variable to a place where bash would run it.
const THROUGH_VARIABLES: &[&str] = &[
    "n=${item.v}; for ((i=0;i<n;i++)); do :; done",
    "x=${item.v}; [[ $x -eq 1 ]]",
    "x=${item.v}; [[ x -eq 1 ]]",
    "x=${item.v}; [[ \"$x\" -lt 1 ]]",
    "x=${item.v}; echo $((x))",
    "x=${item.v}; echo $(($x + 1))",
    "x=${item.v}; echo \"$((1 + x))\"",
    "x=${item.v}; echo $[x]",
    "x=${item.v}; ((x > 1))",
    "x=${item.v}; y=$x; ((y++))",
    "x=${item.v}; y=$x; z=\"a $y\"; ((z++))",
    "x=${item.v}; echo ${!x}",
    "x=${item.v}; echo \"${!x}\"",
    "x=${item.v}; echo ${x@P}",
    "x=${item.v}; a[$x]=1",
    "x=${item.v}; a[x]=1",
    "x=${item.v}; a[x+1]+=1",
    "x=${item.v}; echo ${a[$x]}",
    "x=${item.v}; echo ${a[x]}",
    "s=abc; x=${item.v}; echo ${s:x}",
    "s=abc; x=${item.v}; echo ${s:0:$x}",
    "x=$(echo ${item.v}); $x",
    "x=$(echo ${item.v}); echo $((x))",
    "x=$(printf '%s' \"${item.v}\" | tr -d ' '); ((x))",
    "x=`echo $y`; y=${item.v}; ((x))",
    "x=${item.v}; let x",
    "x=${item.v}; let y=x+1",
    "x=${item.v}; let \"y = $x\"",
    "x=${item.v}; declare -i n=$x",
    "declare -i n; x=${item.v}; n=$x",
    "x=${item.v}; eval \"$x\"",
    "x=${item.v}; sh -c \"$x\"",
    "x=${item.v}; bash -c \"echo $x\"",
    "x=${item.v}; $x",
    "x=${item.v}; \"$x\" --version",
    "x=${item.v}; sudo $x",
    "x=${item.v}; env $x",
    "x=${item.v}; timeout 5 $x",
    "x=${item.v}; trap \"$x\" EXIT",
    "x=${item.v}; PROMPT_COMMAND=$x",
    "x=${item.v}; source \"$x\"",
    "x=${item.v}; echo \"$x\" | sh",
    "x=${item.v}; sh <<EOF\n$x\nEOF",
    "x=${item.v}; sh <<<\"$x\"",
    "x=${item.v}; awk \"$x\"",
    "x=${item.v}; sed \"s/a/$x/\" f",
    "x=${item.v}; python3 -c \"print('$x')\"",
    "x=${item.v}; find . -name $x",
    "x=${item.v}; find . -exec sh -c \"$x\" \\;",
    "x=${item.v}; git fetch $x",
    "x=${item.v}; printf -v \"$x\" y",
    "x=${item.v}; printf -v y '%s' \"$x\"; ((y))",
    "x=${item.v}; test -v \"$x\"",
    "x=${item.v}; [[ -v $x ]]",
    "x=${item.v}; read \"$x\" <<<1",
    "x=${item.v}; unset \"a[$x]\"",
    "x=${item.v}; declare \"$x\"",
    "read x <<<${item.v}; ((x))",
    "read -r x <<EOF\n${item.v}\nEOF\n((x))",
    "echo ${item.v} | while read -r x; do ((x)); done",
    "while read -r x; do ((x)); done <<<\"${item.v}\"",
    "while read -r x; do ((x)); done < <(echo ${item.v})",
    "echo ${item.v} | { read -r x; eval \"$x\"; }",
    "read <<<${item.v}; ((REPLY))",
    "mapfile -t a <<<${item.v}; ((a))",
    "for x in 1 ${item.v}; do ((x)); done",
    "a=(${item.v}); ((a[0]))",
    "a=(${item.v}); for x in \"${a[@]}\"; do $x; done",
    "f() { eval \"$1\"; }; f ${item.v}",
    "f() { local n=$1; echo $((n)); }; f ${item.v}",
    "f() { echo $(( $1 + 1 )); }; f ${item.v}",
    "f() { echo \"$1\"; }; x=$(f ${item.v}); ((x))",
    "set -- ${item.v}; ((x = $1))",
    "set -- ${item.v}; for x; do ((x)); done",
    ": \"${x:=${item.v}}\"; ((x))",
    "x=${y:-${item.v}}; ((x))",
    "x=${item.v}; y=${x%.*}; ((y))",
    "echo ${item.v} | xargs -I{} sh -c 'echo {}'",
    "echo ${item.v} | xargs -I{} {}",
    "echo ${item.v} | xargs -I % bash -c \"echo %\"",
    "echo ${item.v} | xargs --replace=@ sh -c 'echo @'",
    "echo ${item.v} | xargs -i sh -c 'echo {}'",
    "echo ${item.v} | xargs sh -c",
    "echo ${item.v} | xargs sudo bash -c",
    "echo ${item.v} | xargs env bash",
    "x=${item.v}; echo \"$x\" | xargs -I{} sh -c 'echo {}'",
    "find ${item.v} -exec sh -c 'echo {}' \\;",
    "x=${item.v}; find \"$x\" -exec sh -c 'echo {}' \\;",
    "export X=${item.v}; ((X))",
    "readonly x=${item.v}; echo $((x))",
    "x=a; x+=${item.v}; ((x))",
    "IFS=, read -r x y <<<${item.v}; ((y))",
    "echo ${item.v} | xargs sudo -u me bash -c",
    "echo ${item.v} | xargs -I{} timeout 5 sh -c 'echo {}'",
    "a=(<<EOF\neval ${item.v}",
];

/// Ordinary commands with variables, which stay as they were.
const ORDINARY: &[&str] = &[
    "x=${item.v}; echo \"$x\" $x ${x%.*} ${#x} \"${x:-y}\"",
    "x=${item.v}; i=0; i=$((i + 1)); echo $i",
    "x=${item.v}; if [ \"$x\" -gt 3 ]; then :; fi",
    "n=$(wc -l < ${item.v}); if ((n > 5)); then :; fi",
    "n=$(echo ${item.v} | wc -c); echo $((n + 1))",
    "n=$(echo ${item.v} | grep -c x); echo $((n + 1))",
    "n=$(cat ${item.v} | jq length); echo $((n + 1))",
    "x=${item.v}; n=$(printf %d \"$x\"); echo $((n + 1))",
    "while read -r n; do echo \"${item.v}\"; total=$((total + n)); done < numbers",
    "cat numbers | while read -r n; do echo ${item.v}; t=$((t + n)); done",
    "for f in ${item.v|words}; do i=$((i + 1)); echo \"$i $f\"; done",
    "x=${item.v}; case $x in a) cmd=make;; *) cmd=true;; esac; $cmd",
    "x=${item.v}; awk -v x=\"$x\" '{ print x }' f",
    "x=${item.v}; X=$x sh -c 'echo \"$X\"'",
    "x=${item.v}; sh -c 'echo \"$1\"' sh \"$x\"",
    "x=${item.v}; find . -name \"$x\" -type f",
    "x=${item.v}; find . -name \"$x\" -exec sh -c 'echo \"$1\"' sh {} \\;",
    "echo ${item.v} | xargs -I{} sh -c 'echo \"$1\"' sh {}",
    "echo ${item.v} | xargs -n 1 rm -f --",
    "x=${item.v}; git add $x; git commit -m \"$x\"",
    "x=${item.v}; [[ $x == a* && -f $x ]] && grep -- \"$x\" f",
    "f() { echo \"$1\"; }; f ${item.v}; n=1; ((n++))",
    "declare -A a; for k in \"${!a[@]}\"; do echo \"$k\" ${item.v}; done",
    "printf -v x '%s' ${item.v}; echo \"$x\"",
    "x=$(basename ${item.v} .rs); mkdir -p \"out/$x\"",
    "x=${item.v}; y=\"${x/a/b}\"; z=\"${x^^}\"; echo \"$y$z\"",
];

/// Values that bash runs where it evaluates them, or that are commands.
const HOSTILE: [&str; 8] = [
    "a[$(touch canary)]",
    "a[`touch canary`]",
    "x[$(touch canary)]=1",
    "$(touch canary)",
    "touch canary",
    "1 -o -exec touch canary ; -o a",
    "'; touch canary; '",
    "PATH[$(touch canary)0]",
];

/// Returns how a template treats a value: refused when read, when bound, or not at all.
fn verdict(template: &str, dialect: ShellDialect, value: &str) -> String {
    match Script::parse(template, &names(), dialect, false) {
        Err(faults) => {
            let first = faults.first().unwrap();
            let help = first.help.clone().unwrap_or_default();
            format!("{}: {} ({help})", &template[first.range.clone()], first.message)
        }
        Ok(script) => match script.bind(&vars(value)) {
            Err(error) => error.message,
            Ok(_) => "ACCEPTED".to_owned(),
        },
    }
}

#[test]
fn values_are_refused_where_variables_carry_them_to_a_program() {
    let mut slipped = Vec::new();
    for dialect in [ShellDialect::Posix, ShellDialect::Bash] {
        for template in THROUGH_VARIABLES {
            for value in HOSTILE {
                if verdict(template, dialect, value) == "ACCEPTED" {
                    slipped.push(format!("{dialect:?} {template} {value}"));
                }
            }
        }
    }
    assert_eq!(slipped, Vec::<String>::new());
}

#[test]
fn a_refused_variable_is_named_with_the_value_it_holds_and_the_way_out() {
    let templates = [
        "n=${item.v}; for ((i=0;i<n;i++)); do :; done",
        "x=${item.v}; echo ${!x}",
        "x=$(echo ${item.v}); $x",
        "x=${item.v}; sh -c \"echo $x\"",
        "x=${item.v}; find . -name $x",
        "f() { eval \"$1\"; }; f ${item.v}",
        "echo ${item.v} | xargs -I{} sh -c 'echo {}'",
    ];
    let shown = templates.map(|template| {
        format!("{template}\n  {}", verdict(template, ShellDialect::Bash, "a[$(touch canary)]"))
    });
    insta::assert_snapshot!(shown.join("\n"), @r#"
    n=${item.v}; for ((i=0;i<n;i++)); do :; done
      the value of `${item.v}` is not a whole number, and the script puts it into a variable that it uses in arithmetic, where bash runs commands hidden in a value; make a number of it with `$(printf %d …)`, or use another variable there
    x=${item.v}; echo ${!x}
      ${!x}: `$x` holds `${item.v}`, and the shell reads it as the name of a variable or as a prompt, and runs what it hides (use the value itself, or choose the variable with `case`)
    x=$(echo ${item.v}); $x
      $x: `$x` holds `${item.v}`, and stands where a command is expected, so its value would choose what runs (write the command's name, or use `${item.v|raw}` with `allow_raw: true` if it can be trusted like code)
    x=${item.v}; sh -c "echo $x"
      $x: `$x` holds `${item.v}`, and stands in program text that `sh` reads (pass the value as an argument: `sh -c '… "$1" …' sh ${item.v}`)
    x=${item.v}; find . -name $x
      $x: `$x` holds `${item.v}`, and the shell splits it into arguments of `find`, which can run commands (write the variable in double quotes)
    f() { eval "$1"; }; f ${item.v}
      $1: an argument holds `${item.v}`, and is an argument of `eval`, which reads it as a program (write the command itself instead of building it from text)
    echo ${item.v} | xargs -I{} sh -c 'echo {}'
      ${item.v}: `${item.v}` stands in text that becomes a program on standard input (pass the value as an argument, or set an environment variable: `X=${item.v} command …`)
    "#);
}

#[test]
fn ordinary_variables_are_accepted_and_run_nothing() {
    let folder = Folder::new("variables");
    let mut refused = Vec::new();
    for shell in SHELLS {
        for template in ORDINARY {
            for value in HOSTILE {
                let found = verdict(template, shell.dialect(), value);
                if found != "ACCEPTED" {
                    refused.push(format!("{shell:?} {template} {value}\n  {found}"));
                    continue;
                }
                let bound = accepted(template, shell.dialect()).bind(&vars(value)).unwrap();
                folder.try_run(shell, &bound);
                assert!(!folder.take_canary(), "{shell:?} ran {value:?} in {template}");
            }
        }
    }
    assert_eq!(refused.join("\n"), "");
}

#[test]
fn whole_numbers_may_reach_arithmetic_through_variables() {
    let folder = Folder::new("numbers");
    let templates = [
        ("n=${item.v}; for ((i=0;i<n;i++)); do echo $i; done", "0\n1\n2\n"),
        ("x=${item.v}; [[ $x -eq 3 ]] && echo $((x + 1)) $[x]", "4 3\n"),
        ("x=${item.v}; a[$x]=y; echo ${a[x]} \"${a[$x]}\"", "y y\n"),
        ("x=$(echo ${item.v}); let y=x*2; echo $y", "6\n"),
        ("read -r x <<<${item.v}; ((x++)); echo $x", "4\n"),
        ("f() { echo $(($1 * 2)); }; f ${item.v}", "6\n"),
    ];
    for (template, expected) in templates {
        let bound = accepted(template, ShellDialect::Bash).bind(&vars(3)).unwrap();
        let seen = folder.run(Shell::Bash, &bound, "");
        assert_eq!(String::from_utf8(seen).unwrap(), expected, "{template}");
    }
}

#[test]
fn a_raw_value_is_the_authors_own_also_in_a_variable() {
    let source = "x=${item.v|raw}; $x; ((x)); eval \"$x\"";
    let script = Script::parse(source, &names(), ShellDialect::Bash, true).unwrap();
    assert_eq!(script.bind(&vars("a")).unwrap().text, "x=a; $x; ((x)); eval \"$x\"");
}
