//! From text to a tree.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{
    YamlKey, YamlNode, YamlValue,
    char_offsets::CharOffsets,
    frame::{self, Collection, ParseFrame, YamlAnchor},
    scalar::{self, ScalarTag},
    span::{block_header, sequence_start, skip_properties},
    syntax_error,
};
use crate::diagnostic::{Diagnostic, Span};

/// The deepest nesting; no workflow needs more, and what comes later may recurse.
const MAX_DEPTH: usize = 64;
/// The maximum number of aliases.
const MAX_ALIASES: usize = 64;
/// The maximum number of values in a file, with aliases counted as often as they are used.
const MAX_NODES: usize = 200_000;
/// The maximum number of reported mistakes; a file with more is the wrong file.
const MAX_DIAGNOSTICS: usize = 200;

/// Reads a YAML document.
///
/// All mistakes that leave the structure clear (keys given twice, unknown tags, merge keys) are
/// reported together; text that is not YAML ends the reading.
pub fn parse(text: &str, file: u32) -> Result<YamlNode, Vec<Diagnostic>> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = YamlParser {
        text: body,
        file,
        shift: text.len() - body.len(),
        offsets: CharOffsets::new(body),
        frames: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        nodes: 0,
        aliases: 0,
        previous: 0,
        diagnostics: Vec::new(),
    };
    if let Err(fatal) = builder.run() {
        builder.diagnostics.push(fatal);
    }
    match builder.root {
        Some(root) if builder.diagnostics.is_empty() => Ok(root),
        Some(_) | None => Err(builder.diagnostics),
    }
}

/// Returns the message for a file that is nested too deeply.
pub(super) fn depth_message() -> String {
    format!("the file is nested more than {MAX_DEPTH} levels deep")
}

struct YamlParser<'t> {
    text: &'t str,
    file: u32,
    /// The bytes of the byte order mark, which the parser does not see.
    shift: usize,
    offsets: CharOffsets<'t>,
    frames: Vec<ParseFrame>,
    root: Option<YamlNode>,
    anchors: HashMap<usize, YamlAnchor>,
    nodes: usize,
    aliases: usize,
    /// Where the previous event ended.
    previous: usize,
    diagnostics: Vec<Diagnostic>,
}

impl YamlParser<'_> {
    fn run(&mut self) -> Result<(), Diagnostic> {
        if let Some(at) = self.text.find('\0') {
            return Err(Diagnostic::error(
                self.span(at, at + 1),
                "the file has a NUL byte, so it is not text",
            ));
        }
        let mut documents = 0;
        for event in Parser::new_from_str(self.text) {
            let (event, marks) = event.map_err(|error| {
                let at = self.offsets.byte_of(error.marker().index());
                let mistake = syntax_error::explain_syntax_error(error.info(), self.text, at);
                let span = self.span(mistake.range.start, mistake.range.end);
                let diagnostic = Diagnostic::error(span, mistake.message);
                match mistake.help {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                }
            })?;
            let start = self.offsets.byte_of(marks.start.index());
            let end = self.offsets.byte_of(marks.end.index());
            if matches!(event, Event::DocumentStart(_)) {
                documents += 1;
                if documents > 1 {
                    return Err(Diagnostic::error(
                        self.span(start, end),
                        "a second document starts here",
                    )
                    .help("a file holds one document: remove the `---`, or make two files"));
                }
            }
            self.event(event, start, end)?;
            self.previous = end;
        }
        let is_empty = self
            .root
            .as_ref()
            .is_none_or(|root| root.is_null() && root.span.start == root.span.end);
        if is_empty && self.diagnostics.is_empty() {
            return Err(Diagnostic::error(self.span(0, 0), "the file is empty"));
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, start: usize, end: usize) -> Result<(), Diagnostic> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, tag.as_deref(), anchor, start..end)
            }
            Event::Alias(anchor) => self.alias(anchor, start, end),
            Event::SequenceStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", start, end);
                let start = sequence_start(self.text, skip_properties(self.text, start));
                self.open(Collection::List(Vec::new()), anchor, start)
            }
            Event::MappingStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", start, end);
                let start = skip_properties(self.text, start);
                self.open(Collection::Table { entries: Vec::new(), key: None }, anchor, start)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close(start, end);
                Ok(())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        anchor: usize,
        range: std::ops::Range<usize>,
    ) -> Result<(), Diagnostic> {
        let span = self.scalar_span(style, range);
        let tag = self.scalar_tag(tag, span);
        let node = if style == ScalarStyle::Plain {
            if let Some(value) = scalar::resolve_tagged(text, tag) {
                YamlNode::with_spelling(span, value, text)
            } else {
                self.report(Diagnostic::error(span, format!("`{text}` is not what its tag says")));
                YamlNode::new(span, YamlValue::Null)
            }
        } else {
            YamlNode::new(span, YamlValue::String(text.to_owned()))
        };
        if let Some(slot) = self.empty_key() {
            if style == ScalarStyle::Plain && text == "<<" {
                let error = Diagnostic::error(span, "merge keys (`<<`) are not supported").help(
                    "write the keys out, or give the whole mapping an anchor and use `*name`",
                );
                *slot = Some(YamlKey { span, text: text.to_owned() });
                self.report(error);
                return Ok(());
            }
            *slot = Some(YamlKey { span, text: text.to_owned() });
            if text.is_empty() && style == ScalarStyle::Plain {
                self.report(Diagnostic::error(span, "a key is missing before `:`"));
            }
            self.remember(anchor, &node, 1, 0);
            return Ok(());
        }
        self.count(1, span)?;
        self.remember(anchor, &node, 1, 0);
        self.deliver(node, 0);
        Ok(())
    }

    /// Returns where a scalar's own text stands, without tag and anchor but with a block's header.
    fn scalar_span(&self, style: ScalarStyle, range: std::ops::Range<usize>) -> Span {
        if style == ScalarStyle::Literal || style == ScalarStyle::Folded {
            let start = block_header(self.text, self.previous).unwrap_or(range.start);
            let content = self.text.get(start..range.end.max(start)).unwrap_or_default();
            return self.span(start, start + content.trim_end().len());
        }
        let start = skip_properties(self.text, range.start).min(range.end);
        self.span(start, range.end)
    }

    fn alias(&mut self, anchor: usize, start: usize, end: usize) -> Result<(), Diagnostic> {
        let span = self.span(start, end);
        self.aliases += 1;
        if self.aliases > MAX_ALIASES {
            return Err(Diagnostic::error(
                span,
                format!("aliases (`*name`) are used more than {MAX_ALIASES} times"),
            ));
        }
        let Some(found) = self.anchors.get(&anchor) else {
            return Err(Diagnostic::error(span, "this alias stands inside the value it refers to"));
        };
        let (nodes, height) = (found.nodes, found.height);
        if self.frames.len() + height > MAX_DEPTH {
            return Err(Diagnostic::error(span, depth_message()));
        }
        self.count(nodes, span)?;
        let Some(node) = self.anchors.get(&anchor).map(|found| found.node.clone()) else {
            return Ok(());
        };
        self.deliver(node, height);
        Ok(())
    }

    fn open(
        &mut self,
        collection: Collection,
        anchor: usize,
        start: usize,
    ) -> Result<(), Diagnostic> {
        let span = self.span(start, start);
        if self.frames.len() >= MAX_DEPTH {
            return Err(Diagnostic::error(span, depth_message()));
        }
        let nodes_before = self.nodes;
        self.count(1, span)?;
        self.frames.push(ParseFrame { start, anchor, nodes_before, height: 0, collection });
        Ok(())
    }

    fn close(&mut self, start: usize, end: usize) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let shift = self.shift;
        let byte =
            |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX).saturating_sub(shift);
        // A bracket has a width; the end of a block is only where the next thing starts.
        let end = if end > start {
            end
        } else {
            frame.last_span().map_or(frame.start, |span| byte(span.end))
        };
        let span = self.span(frame.start, end.max(frame.start));
        let value = match frame.collection {
            Collection::List(elements) => YamlValue::Sequence(elements),
            Collection::Table { entries, .. } => {
                self.report_duplicates(&entries);
                YamlValue::Mapping(entries)
            }
        };
        let node = YamlNode::new(span, value);
        let height = frame.height + 1;
        self.remember(frame.anchor, &node, self.nodes - frame.nodes_before, height);
        self.deliver(node, height);
    }

    /// Puts a finished value where it belongs.
    fn deliver(&mut self, node: YamlNode, height: usize) {
        if let Some(slot) = self.empty_key() {
            let span = node.span;
            let text = node.scalar_text();
            let is_scalar = text.is_some();
            *slot = Some(YamlKey { span, text: text.unwrap_or_default() });
            if !is_scalar {
                self.report(
                    Diagnostic::error(
                        span,
                        format!("a key must be text, found {}", node.kind_name()),
                    )
                    .help("text that starts with `{` or `[`, such as `{{name}}`, needs quotes"),
                );
            }
            return;
        }
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.height = frame.height.max(height);
        match &mut frame.collection {
            Collection::List(elements) => elements.push(node),
            Collection::Table { entries, key } => {
                if let Some(key) = key.take() {
                    entries.push((key, node));
                }
            }
        }
    }

    /// Returns the place for the next key, if a key comes next.
    fn empty_key(&mut self) -> Option<&mut Option<YamlKey>> {
        self.frames.last_mut()?.empty_key()
    }

    fn remember(&mut self, anchor: usize, node: &YamlNode, nodes: usize, height: usize) {
        // The parser numbers anchors from 1; 0 stands for none.
        if anchor != 0 {
            self.anchors.insert(anchor, YamlAnchor { node: node.clone(), nodes, height });
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), Diagnostic> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(Diagnostic::error(
                span,
                format!("the file has more than {MAX_NODES} values, aliases counted each time"),
            ));
        }
        Ok(())
    }

    fn report_duplicates(&mut self, entries: &[(YamlKey, YamlNode)]) {
        for (before, key) in frame::duplicates(entries) {
            if self.diagnostics.len() < MAX_DIAGNOSTICS {
                let (line, again) = (self.line(before.span), self.line(key.span));
                let message =
                    format!("key `{}` is given twice, in lines {line} and {again}", key.text);
                self.report(Diagnostic::error(key.span, message));
            }
        }
    }

    /// Returns the line of a span, from 1. It walks the text, so it is for mistakes only.
    fn line(&self, span: Span) -> usize {
        let start = usize::try_from(span.start).unwrap_or(usize::MAX).saturating_sub(self.shift);
        self.text.get(..start).unwrap_or_default().matches('\n').count() + 1
    }

    fn scalar_tag(&mut self, tag: Option<&Tag>, span: Span) -> ScalarTag {
        let Some(tag) = tag else {
            return ScalarTag::None;
        };
        ScalarTag::of(tag).unwrap_or_else(|| {
            self.unknown_tag(tag, span);
            ScalarTag::None
        })
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, expected: &str, start: usize, end: usize) {
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && tag.suffix == expected)
        {
            let span = self.span(start, end);
            self.unknown_tag(tag, span);
        }
    }

    fn unknown_tag(&mut self, tag: &Tag, span: Span) {
        let message = format!("the tag `{}` is not supported here", scalar::display_tag(tag));
        self.report(
            Diagnostic::error(span, message)
                .help("remove it; text that starts with `!` needs quotes"),
        );
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        let offset = |byte: usize| u32::try_from(byte + self.shift).unwrap_or(u32::MAX);
        Span { file: self.file, start: offset(start), end: offset(end) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::diagnostic::Sources;

    /// Shows the tree with the text that each span covers.
    fn tree(text: &str) -> String {
        fn show(node: &YamlNode, text: &str, depth: usize, out: &mut String) {
            let covered = &text[node.span.start as usize..node.span.end as usize];
            let pad = "  ".repeat(depth);
            match &node.value {
                YamlValue::Sequence(elements) => {
                    writeln!(out, "list {covered:?}").unwrap();
                    for element in elements {
                        write!(out, "{pad}  - ").unwrap();
                        show(element, text, depth + 1, out);
                    }
                }
                YamlValue::Mapping(entries) => {
                    writeln!(out, "mapping {covered:?}").unwrap();
                    for (key, value) in entries {
                        let key_text = &text[key.span.start as usize..key.span.end as usize];
                        write!(out, "{pad}  {key_text}: ").unwrap();
                        show(value, text, depth + 1, out);
                    }
                }
                value @ (YamlValue::Null
                | YamlValue::Bool(_)
                | YamlValue::Integer(_)
                | YamlValue::Float(_)
                | YamlValue::String(_)) => writeln!(out, "{value:?} {covered:?}").unwrap(),
            }
        }
        let mut out = String::new();
        show(&parse(text, 0).unwrap(), text, 0, &mut out);
        out
    }

    fn mistakes(text: &str) -> String {
        let mut sources = Sources::default();
        sources.add("f.yml", text);
        let mut out = String::new();
        for diagnostic in parse(text, 0).unwrap_err() {
            let (line, column) = sources.position(diagnostic.span).unwrap();
            writeln!(out, "{line}:{column}: {}", diagnostic.message).unwrap();
            if let Some(help) = diagnostic.help {
                writeln!(out, "  help: {help}").unwrap();
            }
        }
        out
    }

    #[test]
    fn every_value_knows_where_it_stands() {
        insta::assert_snapshot!(tree("\u{feff}name: é\r\nsteps:\r\n- shell: |  # note\r\n    one\r\n\r\n    two\r\n\r\n- {a: [x, 'y'], b: \"z\"}\r\nempty:\r\n"), @r#"
        mapping "name: é\r\nsteps:\r\n- shell: |  # note\r\n    one\r\n\r\n    two\r\n\r\n- {a: [x, 'y'], b: \"z\"}\r\nempty"
          name: String("é") "é"
          steps: list "- shell: |  # note\r\n    one\r\n\r\n    two\r\n\r\n- {a: [x, 'y'], b: \"z\"}"
            - mapping "shell: |  # note\r\n    one\r\n\r\n    two"
              shell: String("one\n\ntwo\n") "|  # note\r\n    one\r\n\r\n    two"
            - mapping "{a: [x, 'y'], b: \"z\"}"
              a: list "[x, 'y']"
                - String("x") "x"
                - String("y") "'y'"
              b: String("z") "\"z\""
          empty: Null ""
        "#);
        insta::assert_snapshot!(tree("a: &x !!str 5\nb: *x\nc: &y\n  d: 1\ne: *y\nf: |\ng: !!float 3\n"), @r#"
        mapping "a: &x !!str 5\nb: *x\nc: &y\n  d: 1\ne: *y\nf: |\ng: !!float 3"
          a: String("5") "5"
          b: String("5") "5"
          c: mapping "d: 1"
            d: Integer(1) "1"
          e: mapping "d: 1"
            d: Integer(1) "1"
          f: String("") "|"
          g: Float(3.0) "3"
        "#);
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let root = parse("{a: 3.10, b: 0644, c: 0x1f, d: True, e: ~, f: 1.5, g: '1'}", 0).unwrap();
        let texts: Vec<_> =
            root.as_mapping().unwrap().iter().map(|(_, value)| value.scalar_text()).collect();
        insta::assert_compact_debug_snapshot!(texts, @r#"[Some("3.10"), Some("0644"), Some("0x1f"), Some("True"), None, Some("1.5"), Some("1")]"#);
        insta::assert_snapshot!(root.to_json(), @r#"{"a":3.1,"b":644,"c":31,"d":true,"e":null,"f":1.5,"g":"1"}"#);
    }

    #[test]
    fn documents_that_cannot_be_a_tree_are_explained() {
        let cases = [
            "",
            "# nothing\n",
            "---\n",
            "a: 1\n---\nb: 2\n",
            "a: 1\nb: 2\na: 3\nb: 4\n",
            "? [a]\n: b\n",
            "x: {{name}}\n",
            "a: !custom x\nb: !!set {}\nc: !!int x\n",
            "a: &b {c: 1}\nd:\n  <<: *b\n",
        ];
        insta::assert_snapshot!(cases.map(|text| format!("{text:?}\n{}", mistakes(text))).concat(), @r##"
        ""
        1:1: the file is empty
        "# nothing\n"
        1:1: the file is empty
        "---\n"
        1:1: the file is empty
        "a: 1\n---\nb: 2\n"
        2:1: a second document starts here
          help: a file holds one document: remove the `---`, or make two files
        "a: 1\nb: 2\na: 3\nb: 4\n"
        3:1: key `a` is given twice, in lines 1 and 3
        4:1: key `b` is given twice, in lines 2 and 4
        "? [a]\n: b\n"
        1:3: a key must be text, found a list
          help: text that starts with `{` or `[`, such as `{{name}}`, needs quotes
        "x: {{name}}\n"
        1:5: a key must be text, found a mapping
          help: text that starts with `{` or `[`, such as `{{name}}`, needs quotes
        "a: !custom x\nb: !!set {}\nc: !!int x\n"
        1:12: the tag `!custom` is not supported here
          help: remove it; text that starts with `!` needs quotes
        2:4: the tag `!!set` is not supported here
          help: remove it; text that starts with `!` needs quotes
        3:10: `x` is not what its tag says
        "a: &b {c: 1}\nd:\n  <<: *b\n"
        3:3: merge keys (`<<`) are not supported
          help: write the keys out, or give the whole mapping an anchor and use `*name`
        "##);
    }

    #[test]
    fn text_that_is_not_yaml_is_explained() {
        let cases = [
            "a:\n\tb: 1\n",
            "a:\n  b: 1\n\tc: 2\n",
            "é: \"abc\ndef: 1\n",
            "- shell: echo \"a\": b\n",
            "a: [1, 2\nb: 3\n",
            "- a\nb: 1\n",
            "a: *.rs\n",
            "a: @x\n",
            "a: `x`\n",
            "a: %x\n",
            "a: {b: ${item}}\n",
            "a:\n  b: 1\n c: 2\n",
            "a: \"\\d\"\n",
            "a: \"x\" y\n",
            "a: &x [*x]\n",
            "a: 1\0b\n",
            ": x\n",
            "a: - b\n",
            "a: |\n   b\n  c\n",
            "a: \"unclosed\n",
        ];
        insta::assert_snapshot!(cases.map(|text| format!("{text:?}\n{}", mistakes(text))).concat(), @r#"
        "a:\n\tb: 1\n"
        2:1: a tab is used for indentation
          help: YAML is indented with spaces only
        "a:\n  b: 1\n\tc: 2\n"
        2:6: a tab is not allowed here
          help: YAML is indented with spaces only; text with a tab needs quotes
        "é: \"abc\ndef: 1\n"
        1:4: this quote is never closed
          help: add the closing quote; every line of quoted text must be indented
        "- shell: echo \"a\": b\n"
        1:18: `: ` is not allowed inside this text
          help: put the whole text in quotes, or use a block: `key: |` and the text on the next lines
        "a: [1, 2\nb: 3\n"
        2:2: `:` is out of place here
          help: check that every key is on its own line, and that quotes and brackets are closed
        "- a\nb: 1\n"
        2:1: this line does not fit the list it stands in
          help: elements of one list start with `- ` in the same column; check the indentation
        "a: *.rs\n"
        1:4: `*.rs` refers to an anchor that does not exist
          help: text that starts with `*` needs quotes
        "a: @x\n"
        1:4: a value cannot start with `@`
          help: put the value in quotes
        "a: `x`\n"
        1:4: a value cannot start with ```
          help: put the value in quotes
        "a: %x\n"
        1:4: a value cannot start with `%`
          help: put the value in quotes
        "a: {b: ${item}}\n"
        1:9: expected `,` or `}`
          help: inside `{…}` text with `{`, `}`, `[`, `]` or `,` needs quotes
        "a:\n  b: 1\n c: 2\n"
        3:2: this line does not fit the mapping it stands in
          help: keys of one mapping start in the same column; check the indentation
        "a: \"\\d\"\n"
        1:4: unknown escape in double quotes
          help: write `\\` for a backslash, or use single quotes
        "a: \"x\" y\n"
        1:8: unexpected text after the closing quote
          help: put the whole value in quotes, e.g. in single quotes: `'"a" b'`
        "a: &x [*x]\n"
        1:8: this alias stands inside the value it refers to
        "a: 1\0b\n"
        1:5: the file has a NUL byte, so it is not text
        ": x\n"
        1:1: a key is missing before `:`
        "a: - b\n"
        1:4: a list cannot start here
          help: put `- ` on a new line below the key, or write `[a, b]`
        "a: |\n   b\n  c\n"
        3:3: this line does not fit the mapping it stands in
          help: keys of one mapping start in the same column; check the indentation
        "a: \"unclosed\n"
        1:4: this quote is never closed
          help: add the closing quote; every line of quoted text must be indented
        "#);
    }

    #[test]
    fn a_yaml_bomb_is_one_error() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..8 {
            let alias = format!("*a{}", level - 1);
            writeln!(bomb, "a{level}: &a{level} [{}]", [alias.as_str(); 8].join(", ")).unwrap();
        }
        insta::assert_snapshot!(mistakes(&bomb), @"6:30: the file has more than 200000 values, aliases counted each time");
        let many: String = (0..65).map(|_| "- *a\n").collect();
        insta::assert_snapshot!(mistakes(&format!("- &a x\n{many}")), @"66:3: aliases (`*name`) are used more than 64 times");
        insta::assert_snapshot!(mistakes(&"[".repeat(70)), @"1:65: the file is nested more than 64 levels deep");
        insta::assert_snapshot!(mistakes(&"[".repeat(1 << 20)), @"1:256: the file is nested more than 64 levels deep");
        insta::assert_snapshot!(mistakes(&"- ".repeat(1 << 19)), @"1:129: the file is nested more than 64 levels deep");
        insta::assert_snapshot!(mistakes(&"- x\n".repeat(200_001)), @"200000:3: the file has more than 200000 values, aliases counted each time");
    }

    #[test]
    fn depth_is_counted_through_aliases() {
        let deep = format!("a: &a {}x{}\n", "[".repeat(40), "]".repeat(40));
        assert!(parse(&deep, 0).is_ok());
        let deeper = format!("{deep}b: {}*a{}\n", "[".repeat(30), "]".repeat(30));
        insta::assert_snapshot!(mistakes(&deeper), @"2:34: the file is nested more than 64 levels deep");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[-a-c:#|>'\"\\[\\]{},&*!?%@ \t\n\r\\\\é\u{feff}0-9~.]{0,60}") {
            match parse(&text, 0) {
                Ok(root) => prop_assert!(text.get(root.span.start as usize..root.span.end as usize).is_some()),
                Err(diagnostics) => {
                    prop_assert!(!diagnostics.is_empty());
                    for diagnostic in diagnostics {
                        let range = diagnostic.span.start as usize..diagnostic.span.end as usize;
                        prop_assert!(text.get(range).is_some());
                    }
                }
            }
        }
    }
}
