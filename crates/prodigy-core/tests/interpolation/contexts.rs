//! Every place where a value is accepted, with what must arrive there.

use super::probe::Shell;

/// A template that calls the probe once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) template: &'static str,
    /// What the probe must see, with `<V>` for the value.
    pub(crate) expected: &'static [&'static str],
    /// Whether only bash knows the syntax.
    pub(crate) bash_only: bool,
    /// Whether the shell compares the value with itself letter by letter, again and again.
    pub(crate) matches_slowly: bool,
}

const fn both(template: &'static str, expected: &'static [&'static str]) -> Context {
    Context { template, expected, bash_only: false, matches_slowly: false }
}

const fn slow(template: &'static str, expected: &'static [&'static str]) -> Context {
    Context { template, expected, bash_only: false, matches_slowly: true }
}

const fn bash(template: &'static str, expected: &'static [&'static str]) -> Context {
    Context { template, expected, bash_only: true, matches_slowly: false }
}

impl Context {
    pub(crate) fn runs_in(&self, shell: Shell) -> bool {
        shell == Shell::Bash || !self.bash_only
    }

    /// Whether the template starts other programs, which takes most of the time.
    pub(crate) fn starts_programs(&self) -> bool {
        ["sh ", "cat", "awk", "sed", "probe_in"].iter().any(|name| self.template.contains(name))
    }

    /// Whether the template gives the value to a program as an argument or in
    /// its environment, where the system sets a limit.
    pub(crate) fn hands_on(&self) -> bool {
        ["sh ./", "sh -c", "awk"].iter().any(|name| self.template.contains(name))
    }

    pub(crate) fn expected(&self, value: &str) -> Vec<Vec<u8>> {
        self.expected.iter().map(|text| text.replace("<V>", value).into_bytes()).collect()
    }
}

/// The contexts.
pub(crate) const CONTEXTS: &[Context] = &[
    both("probe ${item.v}", &["<V>"]),
    both("probe a ${item.v} b", &["a", "<V>", "b"]),
    both("probe pre${item.v}post", &["pre<V>post"]),
    both("probe ${item.v}${item.v}", &["<V><V>"]),
    both("probe --flag=${item.v}", &["--flag=<V>"]),
    both(r#"probe "${item.v}""#, &["<V>"]),
    both(r#"probe "a \" ${item.v} \$b""#, &["a \" <V> $b"]),
    both(r#"probe "it's ${item.v}" 'x'"#, &["it's <V>", "x"]),
    both("probe '${item.v}'", &["<V>"]),
    both(r#"probe 'a "$x" `y` ${item.v} \'"#, &[r#"a "$x" `y` <V> \"#]),
    both(r#"probe a'b'"c ${item.v}"d'e ${item.v}'f"#, &["abc <V>de <V>f"]),
    both(r"probe \'${item.v}\' \\", &["'<V>'", "\\"]),
    both("probe_in <<EOF\n${item.v}\nEOF", &["<V>\n"]),
    both("probe_in <<-EOF\n\ta \"${item.v}\" 'b' \\$c\n\tEOF", &["a \"<V>\" 'b' $c\n"]),
    both("probe \"$(printf '%s.' ${item.v})\"", &["<V>."]),
    both("probe \"$(printf '%s.' \"$(printf '%s-' \"${item.v}\")x\")\"", &["<V>-x."]),
    both("probe \"$(cat <<EOF\n${item.v}\nEOF\nprintf .)\"", &["<V>\n."]),
    both("x=${item.v}; probe \"$x\"", &["<V>"]),
    both("x=\"a ${item.v}\"; probe \"$x\"", &["a <V>"]),
    both("x=a'${item.v}'; probe \"$x\"", &["a<V>"]),
    both("X=${item.v} sh ./env.sh", &["<V>"]),
    both("env X=${item.v} sh ./env.sh", &["<V>"]),
    both("export X=${item.v}; sh ./env.sh", &["<V>"]),
    both("sh ./probe.sh ${item.v}", &["<V>"]),
    both("timeout 60 sh ./probe.sh '${item.v}'", &["<V>"]),
    both("sh -c '. ./probe.sh' sh ${item.v}", &["<V>"]),
    both("for x in a ${item.v}; do :; done; probe \"$x\"", &["<V>"]),
    both("case ${item.v} in \"$EXPECTED\") probe same;; *) probe other;; esac", &["same"]),
    both("case \"$EXPECTED\" in ${item.v}) probe same;; *) probe other;; esac", &["same"]),
    both("if [ ${item.v} = \"$EXPECTED\" ]; then probe same; else probe other; fi", &["same"]),
    both("if test \"${item.v}\" = \"$EXPECTED\" && true; then probe same; fi", &["same"]),
    both("f() { probe \"$1\" ${item.v}; }; f '${item.v}'", &["<V>", "<V>"]),
    both("{ probe ${item.v}; }", &["<V>"]),
    both("( probe ${item.v} )", &["<V>"]),
    both("! false && probe ${item.v} # ${item.v} isn't read", &["<V>"]),
    both("set -- ${item.v} \"${item.v}\"; probe \"$@\"", &["<V>", "<V>"]),
    both("printf '%s' ${item.v} | probe_in", &["<V>"]),
    both("probe_in <<A; : <<B\n${item.v}\nA\n${item.v}\nB", &["<V>\n"]),
    both("probe \\\n  ${item.v}", &["<V>"]),
    both("probe ${unset_x:-${item.v}}", &["<V>"]),
    both("probe \"${unset_x:-${item.v}}\"", &["<V>"]),
    both("probe \"${unset_x:-a ${item.v} b}\"", &["a <V> b"]),
    both("probe ${PATH:+${item.v}}", &["<V>"]),
    slow("y=\"pre$EXPECTED\"; probe \"${y%${item.v}}\"", &["pre"]),
    slow("y=\"${item.v}post\"; z=${y#${item.v}}; probe \"$z\"", &["post"]),
    both("while :; do probe ${item.v}; break; done", &["<V>"]),
    both("probe ${item.v} 2>/dev/null </dev/null", &["<V>"]),
    both("probe ~${item.v} {a,${item.v}", &["~<V>", "{a,<V>"]),
    both(
        "command -v sh >/dev/null; probe $$${item.v} | sed 's/x/x/' >/dev/null; probe ${item.v}",
        &["<V>"],
    ),
    both("probe $${PATH:+set} ${item.v}", &["set", "<V>"]),
    both("X=${item.v} awk 'BEGIN { printf \"1%c%s%c\", 0, ENVIRON[\"X\"], 0 }' | cat", &["<V>"]),
    both("probe \"$(cat ${item.v|file}; printf .)\"", &["<V>."]),
    bash("probe $'a\\'b ${item.v} \\x41'", &["a'b <V> A"]),
    bash("probe $\"a ${item.v}\"", &["a <V>"]),
    bash("probe_in <<<${item.v}", &["<V>\n"]),
    bash("a=(x ${item.v} \"${item.v}\"); probe \"${a[@]}\"", &["x", "<V>", "<V>"]),
    bash("declare x=${item.v}; probe \"$x\"", &["<V>"]),
    bash("f() { local x=${item.v}; probe \"$x\"; }; f", &["<V>"]),
    bash("if [[ $EXPECTED == ${item.v} ]]; then probe same; fi", &["same"]),
    Context {
        bash_only: true,
        ..slow("if [[ \"a$EXPECTED\" =~ ^a${item.v}$ ]]; then probe same; fi", &["same"])
    },
    bash("if [[ -n ${item.v} || -z ${item.v} ]]; then probe ${item.v}; fi", &["<V>"]),
    bash("probe {a,${item.v}}", &["a", "<V>"]),
    bash("probe \"$(cat <(printf '%s' ${item.v}); printf .)\"", &["<V>."]),
    bash("function g { probe ${item.v}; }; g", &["<V>"]),
    bash("for ((i = 0; i < 1; i++)); do probe ${item.v}; done", &["<V>"]),
    bash("probe ${item.v} &>/dev/null; probe ${item.v}", &["<V>"]),
];
