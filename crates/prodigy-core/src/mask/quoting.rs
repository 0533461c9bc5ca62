//! A secret as pages, programs and shells quote it.

/// Returns a text as HTML, Python's `repr` and shells write it.
///
/// Those that have nothing to quote in it return the text itself.
pub(super) fn quoted_forms(text: &str) -> impl Iterator<Item = String> {
    html_forms(text).into_iter().chain(python_forms(text)).chain(shell_forms(text))
}

/// The ways in which pages write `"`, `'` and `/`; all write `&`, `<` and `>` by their names.
const PAGES: [[&str; 3]; 9] = [
    ["\"", "'", "/"],
    ["&quot;", "'", "/"],
    ["&quot;", "&#39;", "/"],
    ["&quot;", "&#x27;", "/"],
    ["&quot;", "&#039;", "/"],
    ["&quot;", "&apos;", "/"],
    ["&#34;", "&#39;", "/"],
    ["&quot;", "&#39;", "&#x2F;"],
    ["&quot;", "&#x27;", "&#x2F;"],
];

fn html_forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for [double, single, slash] in PAGES {
        let by_name = |c: char| match c {
            '&' => Some("&amp;".to_owned()),
            '<' => Some("&lt;".to_owned()),
            '>' => Some("&gt;".to_owned()),
            '"' => Some(double.to_owned()),
            '\'' => Some(single.to_owned()),
            '/' => Some(slash.to_owned()),
            _ => None,
        };
        forms.push(replace_chars(text, by_name));
        forms.push(replace_chars(text, |c| by_name(c).or_else(|| far(c).then(|| decimal(c)))));
    }
    let numbers: [fn(char) -> String; 3] =
        [decimal, |c| format!("&#x{:x};", u32::from(c)), |c| format!("&#x{:X};", u32::from(c))];
    for number in numbers {
        let is_kept = |c: char| c.is_ascii_alphanumeric();
        forms.push(replace_chars(text, |c| (!is_kept(c)).then(|| number(c))));
        let is_kept = |c: char| is_kept(c) || " -_.,:;/=+@%!?#$*()[]{}|~^\\".contains(c);
        forms.push(replace_chars(text, |c| (!is_kept(c)).then(|| number(c))));
    }
    forms
}

fn decimal(c: char) -> String {
    format!("&#{};", u32::from(c))
}

fn far(c: char) -> bool {
    !c.is_ascii()
}

/// The form of a non-ASCII character in a literal.
#[derive(Clone, Copy)]
enum NonAsciiStyle {
    Itself,
    Number,
    Bytes,
}

/// A literal of Python: text or bytes, in either kind of quotes.
fn python_forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for quoted in ["", "'", "\"", "'\""] {
        for far in [NonAsciiStyle::Itself, NonAsciiStyle::Number, NonAsciiStyle::Bytes] {
            forms.push(replace_chars(text, |c| literal(c, quoted, far)));
        }
    }
    forms
}

fn literal(c: char, quoted: &str, far: NonAsciiStyle) -> Option<String> {
    match c {
        '\\' => Some("\\\\".to_owned()),
        '\n' => Some("\\n".to_owned()),
        '\r' => Some("\\r".to_owned()),
        '\t' => Some("\\t".to_owned()),
        c if quoted.contains(c) => Some(format!("\\{c}")),
        c if c.is_ascii_control() => Some(format!("\\x{:02x}", u32::from(c))),
        c if c.is_ascii() => None,
        c => match far {
            NonAsciiStyle::Itself => None,
            NonAsciiStyle::Number => Some(match u32::from(c) {
                number @ 0..=0xff => format!("\\x{number:02x}"),
                number @ 0x100..=0xffff => format!("\\u{number:04x}"),
                number => format!("\\U{number:08x}"),
            }),
            NonAsciiStyle::Bytes => Some(bytes(c, |byte| format!("\\x{byte:02x}"))),
        },
    }
}

/// Returns the forms that `printf %q`, `declare -p`, `set -x` and `shlex.quote` print.
fn shell_forms(text: &str) -> Vec<String> {
    // All of bash's list; a few of them it leaves alone unless they come first.
    let special = " !\"$&'()*,;<>?[\\]^`{|}";
    let with_backslash = |c: char, list: &str| list.contains(c).then(|| format!("\\{c}"));
    let mut backslash = replace_chars(text, |c| with_backslash(c, special));
    if text.starts_with(['#', '~']) {
        backslash.insert(0, '\\');
    }
    let everything =
        |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_./:=@%+".contains(c);
    let mut forms = vec![
        backslash,
        replace_chars(text, |c| everything(c).then(|| format!("\\{c}"))),
        text.replace('\'', "'\\''"),
        text.replace('\'', "'\"'\"'"),
        replace_chars(text, |c| with_backslash(c, "\"$\\`")),
        replace_chars(text, |c| with_backslash(c, "\"$\\`!")),
    ];
    for is_ascii in [true, false] {
        forms.push(replace_chars(text, |c| match c {
            '\\' | '\'' => Some(format!("\\{c}")),
            '\n' => Some("\\n".to_owned()),
            '\r' => Some("\\r".to_owned()),
            '\t' => Some("\\t".to_owned()),
            '\u{1b}' => Some("\\E".to_owned()),
            c if c.is_ascii_control() || is_ascii && far(c) => {
                Some(bytes(c, |byte| format!("\\{byte:03o}")))
            }
            _ => None,
        }));
    }
    forms
}

/// Writes each byte of a character in some way.
fn bytes(c: char, write: impl Fn(u8) -> String) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(write).collect()
}

/// Replaces some characters.
fn replace_chars(text: &str, other: impl Fn(char) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match other(c) {
            Some(other) => out.push_str(&other),
            None => out.push(c),
        }
    }
    out
}
