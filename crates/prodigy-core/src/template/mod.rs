//! Templates: text with `${path}` in it.
//!
//! A template is read once, when the workflow is loaded, and filled in many
//! times. It is read in one pass and the values are never looked at again for
//! more references. There are two kinds: [`Template`] puts values into text, encoded
//! for what the text is; [`Script`] puts *references* into a shell script and
//! hands the values over in the environment or in files, so that no value ever
//! becomes part of the program.

mod encoding;
mod filter;
mod reference;
mod resolve;
mod script;
mod shell;

use std::collections::BTreeSet;

use encoding::{AFTER_BACKSLASH, Encoding, EncodingTracker};
use filter::check_relative_path;
use reference::ReferenceContext;
use resolve::{resolve, value_error};

use crate::{diagnostic::ParseError, vars::Vars};

pub use self::{reference::VarReference, script::Script, shell::ExternalCommand};

/// The roots that a template may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VarRoots {
    /// Namespaces and captured names; anything else is unknown.
    pub roots: BTreeSet<String>,
}

/// The use of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateKind {
    /// A prompt, an environment value, or a plain text file: values go in as they are.
    Text,
    /// A path below the worktree: every value must stay inside.
    Path,
    /// A JSON document: values are encoded for where they stand.
    Json,
    /// A YAML document: values are encoded for where they stand.
    Yaml,
}

/// Which shell a script is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellDialect {
    /// `sh` and other POSIX shells.
    Posix,
    /// `bash`, and shells close to it.
    Bash,
}

/// A script that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundScript {
    /// The program text, with references in place of values.
    pub text: String,
    /// The values, by variable name.
    pub env: Vec<(String, String)>,
    /// Values that go into a temporary file, which must exist until the script
    /// ends: the variable gets the file's path.
    pub files: Vec<(String, String)>,
}

/// A template could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// The error message, with the name of the reference.
    pub message: String,
}

/// A template for anything but a shell.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    source: String,
    sink: TemplateKind,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    Literal(String),
    Value(Box<VarReference>, Encoding),
}

impl Template {
    /// Reads a template.
    ///
    /// An unknown root is an error: outside of a shell nobody else could know it.
    pub fn parse(
        source: &str,
        names: &VarRoots,
        sink: TemplateKind,
    ) -> Result<Self, Vec<ParseError>> {
        let mut parts = Vec::new();
        let mut faults = Vec::new();
        let mut literal = String::new();
        let mut tracker = EncodingTracker::new(sink);
        let mut pos = 0;
        while let Some(rest) = source.get(pos..).filter(|rest| !rest.is_empty()) {
            let plain = rest.find('$').unwrap_or(rest.len());
            let (text, rest) = rest.split_at(plain);
            if !text.is_empty() {
                tracker.push_literal(text);
                literal.push_str(text);
                pos += plain;
            } else if rest.starts_with("$${") {
                tracker.push_literal("${");
                literal.push_str("${");
                pos += 3;
            } else if rest.starts_with("${") {
                match reference::parse(source, pos, names, ReferenceContext::Text) {
                    Ok(reference) => {
                        pos = reference.range().end;
                        match tracker.encoding_at(source.get(pos..).unwrap_or_default()) {
                            Ok(encoding) => {
                                parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
                                parts.push(TemplatePart::Value(Box::new(reference), encoding));
                            }
                            Err(problem) => faults.push(misplaced(&reference, problem)),
                        }
                    }
                    Err(fault) => {
                        pos = fault.range.end.max(pos + 2);
                        faults.push(fault);
                    }
                }
            } else {
                tracker.push_literal("$");
                literal.push('$');
                pos += 1;
            }
        }
        parts.push(TemplatePart::Literal(literal));
        if faults.is_empty() {
            Ok(Self { source: source.to_owned(), sink, parts })
        } else {
            Err(faults)
        }
    }

    /// Makes a text that has no values in it, whatever it looks like.
    pub fn literal(text: impl Into<String>) -> Self {
        let source = text.into();
        Self {
            parts: vec![TemplatePart::Literal(source.clone())],
            source,
            sink: TemplateKind::Text,
        }
    }

    /// Returns the template as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns every reference, in the order written.
    pub fn references(&self) -> impl Iterator<Item = &VarReference> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Literal(_) => None,
            TemplatePart::Value(reference, _) => Some(&**reference),
        })
    }

    /// Fills the template in.
    pub fn render(&self, vars: &Vars) -> Result<String, RenderError> {
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => rendered.push_str(text),
                TemplatePart::Value(reference, encoding) => {
                    let filled = resolve(reference, vars)?;
                    let text = encoding
                        .write(&filled)
                        .map_err(|problem| value_error(reference, &problem))?;
                    if self.sink == TemplateKind::Path {
                        check_relative_path(&text)
                            .map_err(|problem| value_error(reference, &problem))?;
                    }
                    rendered.push_str(&text);
                }
            }
        }
        match self.sink {
            TemplateKind::Path => self.checked_path(rendered),
            TemplateKind::Text | TemplateKind::Json | TemplateKind::Yaml => Ok(rendered),
        }
    }

    /// Returns the template with the values that are known, for people to read; what has no
    /// value yet, or one that may not stand there, stays as it is written.
    pub fn preview(&self, vars: &Vars) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(literal) => text.push_str(literal),
                TemplatePart::Value(reference, encoding) => {
                    let filled = resolve(reference, vars).ok();
                    let value = filled.and_then(|filled| encoding.write(&filled).ok());
                    let written = || self.source.get(reference.range()).unwrap_or_default().into();
                    text.push_str(&value.unwrap_or_else(written));
                }
            }
        }
        text
    }

    /// Two harmless values can make a harmful path, such as `.` beside `.`, so
    /// the whole is looked at as well.
    fn checked_path(&self, path: String) -> Result<String, RenderError> {
        if self.references().next().is_none() {
            return Ok(path);
        }
        if path.split('/').any(|part| part == "..") {
            let message = format!("the path `{}` leads outside: it has a `..`", self.source);
            return Err(RenderError { message });
        }
        Ok(if path.starts_with('-') { format!("./{path}") } else { path })
    }
}

fn misplaced(reference: &VarReference, problem: &str) -> ParseError {
    let spelled = reference.path_text();
    let help = if problem == AFTER_BACKSLASH {
        "take the `\\` away, or write `\\\\` for a literal one".to_owned()
    } else {
        format!("write it in double quotes, e.g. `\"… ${{{spelled}}} …\"`")
    };
    let message = format!("`${{{spelled}}}`: {problem}");
    ParseError { range: reference.range(), message, help: Some(help) }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    fn names() -> VarRoots {
        VarRoots { roots: ["item", "steps", "map", "n", "my-var"].map(str::to_owned).into() }
    }

    fn vars() -> Vars {
        let mut vars = Vars::default();
        vars.set(
            "item",
            json!({
                "path": "src/lib.rs", "dash": "-rf", "up": "a/../b", "abs": "/etc", "dot": ".",
                "quote": "it's \"q\"\n\\", "files": ["a b", "c"], "odd name": 1, "empty": "",
                "null": null, "lookalike": "${item.path} $${x}", "nul": "a\0b", "del": "\u{7f}\u{2028}",
            }),
        );
        vars.set("n", 5);
        vars.set("my-var", "mine");
        vars
    }

    fn faults(source: &str, sink: TemplateKind) -> String {
        let faults = Template::parse(source, &names(), sink).unwrap_err();
        let lines = faults.into_iter().map(|fault| {
            let marked = &source[fault.range.clone()];
            format!("{marked} -> {} ({})", fault.message, fault.help.unwrap_or_default())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn render(source: &str, sink: TemplateKind) -> String {
        match Template::parse(source, &names(), sink).unwrap().render(&vars()) {
            Ok(text) => text,
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn values_defaults_and_filters_combine() {
        let text = |source| render(source, TemplateKind::Text);
        assert_eq!(text("fix ${item.path}: ${n}"), "fix src/lib.rs: 5");
        assert_eq!(text("${my-var} ${my-var:-x}"), "mine mine");
        assert_eq!(text("${item.files}"), r#"["a b","c"]"#);
        assert_eq!(text("${item.files[0]}/${item.\"odd name\"}/${item['odd name']}"), "a b/1/1");
        assert_eq!(text("${item.gone:-none}|${item.null:-n}|${item.empty:-e}"), "none|n|e");
        assert_eq!(text("${item.gone:-none|upper}|${item.gone|upper:-none}"), "NONE|NONE");
        assert_eq!(
            text("${item.gone:-}|${item.gone:-a\\}b\\|c}|${item.gone:-\"a}|b\"}"),
            "|a}b|c|a}|b"
        );
        assert_eq!(text("${item.null}|${item.files|length}|${item.path | length}"), "|2|10");
        assert_eq!(text("${item.files|lines}"), "a b\nc");
        assert_eq!(text("${item.quote|json}"), r#""it's \"q\"\n\\""#);
        assert_eq!(text("${item.dash|path} ${ n }"), "./-rf 5");
    }

    #[test]
    fn results_are_never_read_again_and_dollars_are_left_alone() {
        assert_eq!(render("${item.lookalike}", TemplateKind::Text), "${item.path} $${x}");
        assert_eq!(
            render("$${item.path} $$ $1 $(x) $NAME $", TemplateKind::Text),
            "${item.path} $$ $1 $(x) $NAME $"
        );
        assert_eq!(render("$$${n}", TemplateKind::Text), "$${n}");
    }

    #[test]
    fn every_mistake_is_reported_at_once() {
        assert_snapshot!(
            faults("${itme.path} ${HOME} ${} ${item.} ${item[x]} ${item|jsn} ${item|words} ${item%.rs} ${n:-${item}}", TemplateKind::Text),
            @r#"
        ${itme.path} -> unknown variable `itme` (did you mean `item`?)
        ${HOME} -> unknown variable `HOME` (write `$${` for a literal `${`; the variables here are `item`, `map`, `my-var`, `n`, `steps`)
        ${} -> `${}` names no variable (write `$${` for a literal `${`)
        ${item.} -> a `.` must be followed by the name of a field (paths look like `item.name`, `item.files[0]` or `item."odd name"`)
        ${item[x]} -> `[` must be followed by a number (paths look like `item.name`, `item.files[0]` or `item."odd name"`)
        ${item|jsn} -> unknown filter `jsn` (did you mean `json`?)
        ${item|words} -> the filter `words` is for shell commands only (leave it out: here a value is inserted as it is)
        ${item%.rs} -> unexpected `%` after `item` (only `:-default` and `|filter` may follow a variable)
        ${n:-${item} -> a default is plain text and cannot hold a `${…}` (set the value in an earlier step, or in `env`)
        "#
        );
        assert_snapshot!(faults("a ${item.path", TemplateKind::Text), @"${item.path -> `${` is never closed (write `$${` for a literal `${`)");
        assert_snapshot!(faults("${item|words|json} ${item|raw} ${item|frobnicate}", TemplateKind::Text), @"
        ${item|words|json} -> the filter `words` must be the last one (move `|words` to the end)
        ${item|raw} -> the filter `raw` is for shell commands only (leave it out: here a value is inserted as it is)
        ${item|frobnicate} -> unknown filter `frobnicate` (the filters are `json`, `lower`, `upper`, `trim`, `length`, `lines`, `path`, `words`, `file`, `raw`)
        ");
    }

    #[test]
    fn a_missing_value_says_what_exists() {
        assert_snapshot!(render("${item.pth}", TemplateKind::Text), @"error: `${item.pth}` has no value: `item` has no field `pth`; did you mean `path`?");
        assert_snapshot!(render("${item.colour}", TemplateKind::Text), @"error: `${item.colour}` has no value: `item` has no field `colour`; it has `path`, `dash`, `up`, `abs`, `dot`, `quote`, `files`, `odd name`, and 5 more");
        assert_snapshot!(render("${item.files[2]}", TemplateKind::Text), @"error: `${item.files[2]}` has no value: `item.files` has no element 2; it has 2, counted from 0");
        assert_snapshot!(render("${item.path.x}", TemplateKind::Text), @"error: `${item.path.x}` has no value: `item.path` is text, so it has no field `x`");
        assert_snapshot!(render("${n[0]}", TemplateKind::Text), @"error: `${n[0]}` has no value: `n` is a number, so it has no element 0");
        assert_snapshot!(render("${steps.build.output}", TemplateKind::Text), @"error: `${steps.build.output}` has no value: `steps` is not set");
    }

    #[test]
    fn a_path_stays_inside() {
        let path = |source| render(source, TemplateKind::Path);
        assert_eq!(path("out/${item.path}.txt"), "out/src/lib.rs.txt");
        assert_eq!(path("${item.dash}"), "./-rf");
        assert_eq!(path("a${item.dash}"), "a-rf");
        assert_eq!(path("/fixed/..:-"), "/fixed/..:-");
        assert_snapshot!(path("${item.up}"), @"error: the value of `${item.up}` has a `..` in it; a path must stay inside");
        assert_snapshot!(path("${item.abs}"), @"error: the value of `${item.abs}` is an absolute path; it must be relative and stay inside");
        assert_snapshot!(path("${item.dot}${item.dot}/x"), @"error: the path `${item.dot}${item.dot}/x` leads outside: it has a `..`");
        assert_snapshot!(path("${item.empty}/x"), @"error: the value of `${item.empty}` is empty, so it is no path");
        assert_snapshot!(path("${item.nul}"), @"error: the value of `${item.nul}` contains a NUL byte, so it is no path");
    }

    #[test]
    fn json_values_are_encoded_for_where_they_stand() {
        let json = |source| render(source, TemplateKind::Json);
        let document = json(
            r#"{"a": ${item.quote}, "b": "x ${item.quote} \" ${n}", "c": ${item.files}, "d": ${item.files|json}, ${item.path}: ${item.null}}"#,
        );
        let read: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(
            read,
            json!({
                "a": "it's \"q\"\n\\", "b": "x it's \"q\"\n\\ \" 5", "c": ["a b", "c"],
                "d": ["a b", "c"], "src/lib.rs": null,
            })
        );
        assert_snapshot!(faults(r#"{"a": "\${n}"}"#, TemplateKind::Json), @r"${n} -> `${n}`: a value cannot stand right after a `\` (take the `\` away, or write `\\` for a literal one)");
    }

    #[test]
    fn yaml_values_are_encoded_for_where_they_stand() {
        let yaml = |source| render(source, TemplateKind::Yaml);
        assert_snapshot!(
            yaml("a: ${item.quote}\nb: \"x ${item.quote}\"\nc: 'y ${item.path} ''z'' ${n}' # ${item.quote}\n- ${n}\nd: [${n}, ${item.files}]\ne: don't\nf: ${item.del}\n${n}: 1\ng: |\n  text ' \"\nh: ${n}\n"),
            @r#"
        a: "it's \"q\"\n\\"
        b: "x it's \"q\"\n\\"
        c: 'y src/lib.rs ''z'' 5' # "it's \"q\"\n\\"
        - 5
        d: [5, ["a b","c"]]
        e: don't
        f: "\u007f\u2028"
        5: 1
        g: |
          text ' "
        h: 5
        "#
        );
        assert_eq!(yaml("a: 'x${item.dash}'"), "a: 'x-rf'");
        assert_snapshot!(yaml("a: '${item.quote}'"), @"error: the value of `${item.quote}` has a line break or a control character, which YAML cannot write in single quotes; use double quotes");
        assert_snapshot!(
            faults("a: hello ${n}\nb: ${n} there\nc: |\n  ${n}\nd: \"\\${n}\"\ne: -${n}\n", TemplateKind::Yaml),
            @r#"
        ${n} -> `${n}`: a value cannot be a part of a text without quotes (write it in double quotes, e.g. `"… ${n} …"`)
        ${n} -> `${n}`: a value cannot be a part of a text without quotes (write it in double quotes, e.g. `"… ${n} …"`)
        ${n} -> `${n}`: a value cannot stand in a `|` or `>` block, where its line breaks and spaces would change the document (write it in double quotes, e.g. `"… ${n} …"`)
        ${n} -> `${n}`: a value cannot stand right after a `\` (take the `\` away, or write `\\` for a literal one)
        ${n} -> `${n}`: a value cannot be a part of a text without quotes (write it in double quotes, e.g. `"… ${n} …"`)
        "#
        );
    }

    #[test]
    fn references_tell_where_they_stand() {
        let source = "a ${item.path} ${n|upper}";
        let text = Template::parse(source, &names(), TemplateKind::Text).unwrap();
        let found: Vec<_> =
            text.references().map(|r| (r.path().to_string(), &source[r.range()])).collect();
        assert_eq!(
            found,
            [("item.path".to_owned(), "${item.path}"), ("n".to_owned(), "${n|upper}")]
        );
        assert_eq!(text.source(), source);
    }

    /// Returns the texts of a YAML document, as a real parser sees them.
    fn scalars(document: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for event in saphyr_parser::Parser::new_from_str(document) {
            if let saphyr_parser::Event::Scalar(text, ..) = event.unwrap().0 {
                texts.push(text.into_owned());
            }
        }
        texts
    }

    #[test]
    fn yaml_keeps_characters_beyond_four_digits_as_they_are() {
        let mut vars = Vars::default();
        vars.set("n", "\u{9fffe}");
        let template = Template::parse("a: \"${n}\"\n", &names(), TemplateKind::Yaml).unwrap();
        let document = template.render(&vars).unwrap();
        assert_eq!(document, "a: \"\u{9fffe}\"\n");
        assert_eq!(scalars(&document), ["a", "\u{9fffe}"]);
    }

    proptest::proptest! {
        #[test]
        fn reading_any_text_never_panics(source in ".{0,80}", sink in 0..4_usize) {
            let sink = [TemplateKind::Text, TemplateKind::Path, TemplateKind::Json, TemplateKind::Yaml][sink];
            Template::parse(&source, &names(), sink).ok();
            let noisy = format!("${{item{source}}}${{{source}${{n:-{source}");
            Template::parse(&noisy, &names(), sink).ok();
        }

        #[test]
        fn any_value_survives_every_place_of_a_yaml_document(value in "[^\\x00]*|\\PC*|[:#'\"\\[{},&*!|>%@` \\n-]*") {
            let mut vars = Vars::default();
            vars.set("n", value.clone());
            let source = "# ${n}\na: ${n}\n${n}: \"x ${n}\"\nb: [${n}, {c: ${n}}] # ${n}\nd:\n- ${n}\n- e: ${n}\n";
            let text = Template::parse(source, &names(), TemplateKind::Yaml).unwrap().render(&vars).unwrap();
            let quoted = format!("x {value}");
            let v = value.as_str();
            let wanted = ["a", v, v, &quoted, "b", v, "c", v, "d", v, "e", v].map(str::to_owned);
            proptest::prop_assert_eq!(scalars(&text), wanted.to_vec());
            let single = Template::parse("a: 'x ${n}'", &names(), TemplateKind::Yaml).unwrap();
            if let Ok(text) = single.render(&vars) {
                proptest::prop_assert_eq!(scalars(&text), vec!["a".to_owned(), quoted]);
            }
        }

        #[test]
        fn any_value_survives_json_and_yaml_double_quotes(value in "\\PC*|(?s).*") {
            let mut vars = Vars::default();
            vars.set("n", value.clone());
            for sink in [TemplateKind::Json, TemplateKind::Yaml] {
                let text = Template::parse(r#"{"a": ${n}, "b": "${n}"}"#, &names(), sink).unwrap();
                let read: serde_json::Value = serde_json::from_str(&text.render(&vars).unwrap()).unwrap();
                proptest::prop_assert_eq!(read, json!({"a": value, "b": value}));
            }
        }
    }
}
