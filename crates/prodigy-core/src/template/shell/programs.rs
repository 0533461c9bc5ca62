//! The programs that read their arguments again, as a table.

use super::options::{NO_OPTIONS, OptionTable};

/// The meaning of a program's first operand, if no option supplied a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandKind {
    /// Program text.
    Code,
    /// The name of a program; what follows belongs to it.
    File,
    /// Data, as are the others.
    Data,
    /// Data; the others are program text.
    DataThenCode,
}

/// A program that reads program text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpreter {
    pub(crate) names: &'static [&'static str],
    pub(crate) options: OptionTable,
    pub(crate) operand: OperandKind,
    /// Set if options may follow operands.
    pub(crate) permutes: bool,
    /// Set if it runs its standard input when it is given no program.
    pub(crate) stdin: bool,
    /// Set if it has options that run commands.
    pub(crate) guard_dash: bool,
    /// The way out; `${x}` stands for the reference.
    pub(crate) help: &'static str,
}

/// A program that runs its arguments as a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandWrapper {
    pub(crate) names: &'static [&'static str],
    pub(crate) options: OptionTable,
    /// The number of operands before the command.
    pub(crate) operands: usize,
    /// Options that mean that nothing is run.
    pub(crate) only_looks: &'static [&'static str],
}

const BY_ENVIRONMENT: &str =
    "hand the value over in the environment: `X=${x} command …`, and read the variable there";

const fn language(
    names: &'static [&'static str],
    code: &'static [&'static str],
    file: &'static [&'static str],
    valued: &'static [&'static str],
    help: &'static str,
) -> Interpreter {
    Interpreter {
        names,
        options: OptionTable { code, file, valued, pairs: &[], attached: "" },
        operand: OperandKind::File,
        permutes: false,
        stdin: true,
        guard_dash: false,
        help,
    }
}

/// The letters of `-i.orig` after the `i` are no options.
const fn edits_in_place(interpreter: Interpreter) -> Interpreter {
    let options = OptionTable { attached: "iFC", ..interpreter.options };
    Interpreter { options, ..interpreter }
}

const fn filter_program(
    names: &'static [&'static str],
    options: OptionTable,
    guard_dash: bool,
    help: &'static str,
) -> Interpreter {
    Interpreter {
        names,
        options,
        operand: OperandKind::Code,
        permutes: true,
        stdin: false,
        guard_dash,
        help,
    }
}

const fn runs_by_option(
    names: &'static [&'static str],
    code: &'static [&'static str],
) -> Interpreter {
    Interpreter {
        names,
        options: OptionTable { code, ..NO_OPTIONS },
        operand: OperandKind::Data,
        permutes: true,
        stdin: false,
        guard_dash: true,
        help: "write the command in the script itself",
    }
}

const fn database(
    names: &'static [&'static str],
    code: &'static [&'static str],
    valued: &'static [&'static str],
    operand: OperandKind,
) -> Interpreter {
    Interpreter {
        names,
        options: OptionTable { code, valued, ..NO_OPTIONS },
        operand,
        permutes: true,
        stdin: true,
        guard_dash: true,
        help: "use the database's own parameters, with the value from a file: `${x|file}`",
    }
}

/// Programs that read program text.
pub(crate) const INTERPRETERS: &[Interpreter] = &[
    language(
        &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"],
        &["-c", "--command"],
        &["--rcfile", "--init-file"],
        &["-o", "+o", "-O", "+O"],
        "pass the value as an argument: `sh -c '… \"$1\" …' sh ${x}`",
    ),
    language(
        &["python", "pypy"],
        &["-c"],
        &["-m"],
        &["-W", "-X"],
        "pass the value as an argument: `python3 -c '… sys.argv[1] …' ${x}`",
    ),
    edits_in_place(language(
        &["perl"],
        &["-e", "-E"],
        &["-M", "-m", "-I"],
        &[],
        "pass the value as an argument: `perl -e '… $ARGV[0] …' -- ${x}`",
    )),
    edits_in_place(language(
        &["ruby"],
        &["-e"],
        &["-r", "-I"],
        &[],
        "pass the value as an argument: `ruby -e '… ARGV[0] …' -- ${x}`",
    )),
    language(
        &["node", "nodejs", "bun"],
        &["-e", "-p", "-pe", "--eval", "--print"],
        &["-r", "--require", "--import", "--loader"],
        &[],
        "pass the value as an argument: `node -e '… process.argv[1] …' -- ${x}`",
    ),
    language(&["php"], &["-r", "-B", "-R", "-E"], &["-f", "-d"], &[], BY_ENVIRONMENT),
    language(&["lua", "luajit"], &["-e"], &["-l"], &[], BY_ENVIRONMENT),
    language(
        &["Rscript", "julia", "elixir", "osascript", "groovy", "ghc"],
        &["-e", "-E"],
        &[],
        &[],
        BY_ENVIRONMENT,
    ),
    language(
        &["pwsh", "powershell"],
        &["-c", "-C", "-Command", "-command"],
        &["-f", "-File"],
        &[],
        BY_ENVIRONMENT,
    ),
    filter_program(
        &["awk", "gawk", "mawk", "nawk"],
        OptionTable {
            code: &["-e", "--source", "-v", "--assign"],
            file: &["-f", "--file", "-i", "--include", "-l", "--load"],
            valued: &["-F", "--field-separator"],
            ..NO_OPTIONS
        },
        false,
        "awk also reads escapes in `-v`; use the environment: `X=${x} awk '… ENVIRON[\"X\"] …'`",
    ),
    filter_program(
        &["sed", "gsed"],
        OptionTable {
            code: &["-e", "--expression"],
            file: &["-f", "--file"],
            valued: &["-l", "--line-length"],
            attached: "i",
            ..NO_OPTIONS
        },
        true,
        "sed can run commands; use `X=${x} awk '… ENVIRON[\"X\"] …'`",
    ),
    filter_program(
        &["jq", "gojq", "jaq"],
        OptionTable {
            file: &["-f", "--from-file", "-L", "--library-path"],
            valued: &["--indent"],
            pairs: &["--arg", "--argjson", "--slurpfile", "--rawfile"],
            ..NO_OPTIONS
        },
        true,
        "pass the value by name: `jq --arg x ${x} '… $x …'`",
    ),
    filter_program(
        &["yq"],
        OptionTable {
            file: &["--from-file"],
            valued: &["-p", "-o", "-I", "--input-format", "--output-format", "--indent"],
            ..NO_OPTIONS
        },
        true,
        "use the environment: `X=${x} yq '… strenv(X) …'`",
    ),
    database(
        &["psql"],
        &["-c", "--command", "-v", "--set", "--variable"],
        &["-d", "-h", "-p", "-U", "-f", "-o", "-L", "-F", "-R"],
        OperandKind::Data,
    ),
    database(
        &["mysql", "mariadb"],
        &["-e", "--execute", "--init-command"],
        &["-h", "-u", "-P", "-D", "-S"],
        OperandKind::Data,
    ),
    database(
        &["sqlite", "duckdb"],
        &["-cmd", "-c"],
        &["-init", "-separator", "-newline", "-nullvalue"],
        OperandKind::DataThenCode,
    ),
    runs_by_option(
        &["tar", "bsdtar", "gtar"],
        &[
            "--to-command",
            "-I",
            "--use-compress-program",
            "--checkpoint-action",
            "--rsh-command",
            "-F",
            "--info-script",
        ],
    ),
    runs_by_option(&["rsync"], &["-e", "--rsh", "--rsync-path"]),
    runs_by_option(&["scp", "sftp"], &["-S", "-o", "-F", "-J", "-D"]),
    runs_by_option(&["sort"], &["--compress-program"]),
    runs_by_option(&["zip"], &["-TT", "--unzip-command"]),
    runs_by_option(&["curl"], &["-K", "--config"]),
    runs_by_option(&["man"], &["-P", "--pager", "-H"]),
    runs_by_option(&["vim", "nvim", "vi", "ex"], &["-c", "--cmd", "-S", "-s"]),
];

const fn prefix(
    names: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
) -> CommandWrapper {
    CommandWrapper {
        names,
        options: OptionTable { valued, ..NO_OPTIONS },
        operands,
        only_looks: &[],
    }
}

/// Programs that run their arguments as a command.
pub(crate) const PREFIXES: &[CommandWrapper] = &[
    CommandWrapper {
        options: OptionTable {
            code: &["-S", "--split-string"],
            valued: &["-u", "--unset", "-C", "--chdir"],
            ..NO_OPTIONS
        },
        ..prefix(&["env"], &[], 0)
    },
    CommandWrapper { only_looks: &["-v", "-V"], ..prefix(&["command"], &[], 0) },
    prefix(
        &["builtin", "nohup", "setsid", "unbuffer", "xvfb-run", "caffeinate", "busybox"],
        &[],
        0,
    ),
    prefix(&["exec"], &["-a"], 0),
    prefix(&["npx", "bunx", "uvx"], &["-p", "--package", "--from", "--with"], 0),
    prefix(
        &["sudo"],
        &[
            "-u", "-g", "-p", "-C", "-h", "-U", "-r", "-t", "-D", "-R", "-T", "--user", "--group",
            "--host", "--prompt", "--chdir", "--chroot", "--role", "--type",
        ],
        0,
    ),
    prefix(&["doas"], &["-u", "-C"], 0),
    prefix(&["time"], &["-f", "-o", "--format", "--output"], 0),
    prefix(&["nice"], &["-n", "--adjustment"], 0),
    prefix(&["ionice"], &["-c", "-n", "-p"], 0),
    prefix(&["stdbuf"], &["-i", "-o", "-e"], 0),
    prefix(&["strace", "ltrace"], &["-e", "-o", "-p", "-s", "-u"], 0),
    prefix(&["systemd-run"], &["-p", "-u", "-M", "-H", "-E"], 0),
    prefix(&["timeout", "gtimeout"], &["-k", "-s", "--kill-after", "--signal"], 1),
    prefix(&["chroot"], &["--userspec", "--groups"], 1),
    prefix(&["taskset", "chrt"], &["-T", "-P", "-D"], 1),
    CommandWrapper {
        options: OptionTable {
            code: &["-c", "--command"],
            valued: &["-w", "-E", "--timeout", "--conflict-exit-code"],
            ..NO_OPTIONS
        },
        ..prefix(&["flock"], &[], 1)
    },
    CommandWrapper {
        options: OptionTable {
            code: &["-c", "--command"],
            valued: &["-u", "-g", "-s", "-G"],
            ..NO_OPTIONS
        },
        ..prefix(&["su", "runuser", "script"], &[], 1)
    },
];

/// Programs that run a command somewhere else, with arguments that we do not know.
pub(crate) const RUNNERS: &[&str] = &[
    "docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "nix", "uv", "poetry", "pipenv",
    "bundle", "wsl", "vagrant",
];

/// Programs that print their arguments, or a part of them.
pub(crate) const PRINTERS: &[&str] =
    &["echo", "printf", "print", "basename", "dirname", "realpath", "readlink", "expr"];

/// Programs that print numbers and names of files, whatever they are given.
pub(crate) const COUNTERS: &[&str] = &["wc", "cksum", "md5sum", "sha1sum", "sha256sum"];

/// Programs that hand all of their arguments to a shell, or evaluate them.
pub(crate) const EVALUATORS: &[(&[&str], &str)] = &[
    (&["eval"], "write the command itself instead of building it from text"),
    (&["trap"], "put the value into a shell variable first, and use `\"$value\"` in single quotes"),
    (&["alias"], "write a function instead"),
    (&["coproc"], "start the command in the background with `&`"),
    (&["let"], "use `$((…))`, which takes whole numbers"),
    (&["watch", "parallel", "tmux", "screen", "at", "batch", "expect"], BY_ENVIRONMENT),
    (&["bind", "complete", "compgen", "enable", "fc", "hash"], "write the text itself"),
];
