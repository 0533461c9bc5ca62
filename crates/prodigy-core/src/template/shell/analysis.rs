//! Results of reading a script: references, the spelling of each, and refusals.

use std::ops::Range;

use super::{
    external::ExternalCommand,
    scanner::ScannedScript,
    variables::{EVALUATED, ForbiddenUse, ShellVariables},
    word::ShellWord,
};
use crate::{
    diagnostic::ParseError,
    template::{filter::TemplateFilter, reference::VarReference},
};

/// The spelling of a reference in the finished script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteStyle {
    /// A word of its own, or a part of one: `"${P}"`.
    Quoted,
    /// Where quotes are open already, or have no meaning: `${P}`.
    Bare,
    /// Between single quotes: they are closed and opened again.
    Single,
    /// Between `$'` and `'`: they are closed and opened again.
    AnsiC,
    /// In arithmetic, where `-5` must not touch another `-`.
    Arithmetic,
}

/// A condition on a value at its place, whatever the quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueConstraint {
    /// Bash runs `a[$(command)]` when it evaluates arithmetic, so only numbers pass.
    Integer,
    /// As [`ValueConstraint::Integer`], for a value that gets there through a shell variable.
    NumberInVariable,
    /// For programs that give characters such as `=` and `$` a meaning.
    Simple,
    /// For programs with options that run commands.
    NoDash,
    /// For commands that `find` runs: it replaces `{}`, and `;` ends them.
    ForFind,
}

impl ValueConstraint {
    /// Returns what is wrong with a value.
    pub(crate) fn violation(self, text: &str) -> Option<&'static str> {
        let (holds, problem) = match self {
            Self::Integer => {
                (is_integer(text), "is not a whole number, and only those can stand in arithmetic")
            }
            Self::NumberInVariable => (
                is_integer(text),
                "is not a whole number, and the script puts it into a variable that it uses in \
                 arithmetic, where bash runs commands hidden in a value; make a number of it with \
                 `$(printf %d …)`, or use another variable there",
            ),
            Self::Simple => (
                is_simple(text),
                "must be made of letters, digits and `._/@:+-` here, and not start with `-`: the \
                 program gives other characters a meaning",
            ),
            Self::NoDash => (
                !text.starts_with('-'),
                "starts with `-`, and this program has options that run commands; put `--` before \
                 it or use the filter `path`",
            ),
            Self::ForFind => (
                !text.contains("{}") && text != ";" && text != "+",
                "is `;` or `+`, or contains `{}`, which `find` gives a meaning; use the filter `file`",
            ),
        };
        (!holds).then_some(problem)
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    !leading_zero && digits.bytes().all(|b| b.is_ascii_digit()) && text.parse::<i64>().is_ok()
}

fn is_simple(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._/@:+-".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_part)
}

/// A value that the script needs; references to the same value share it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptParam {
    pub(crate) reference: VarReference,
    pub(crate) checks: Vec<ValueConstraint>,
}

/// A part of the finished script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScriptPart {
    /// Text as it is.
    Literal(String),
    /// The value of a slot.
    Value { slot: usize, spelling: QuoteStyle },
}

/// The reason of a refused reference, and the alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacementError<'a> {
    /// Follows the reference: "`${item.x}` …".
    pub(crate) reason: &'a str,
    /// The way out; `${x}` stands for the reference.
    pub(crate) help: &'a str,
}

/// The quotes or other surroundings that a reference stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// No quotes.
    None,
    /// Double quotes.
    Double,
    /// Single quotes.
    Single,
    /// `$'…'`
    AnsiC,
    /// A here-document that the shell expands.
    Here,
    /// `$((…))`
    Arithmetic,
    /// Somewhere no value can go.
    Refused(PlacementError<'static>),
}

/// One place where a reference stands.
#[derive(Clone, Debug)]
struct Occurrence {
    slot: usize,
    range: Range<usize>,
    spelling: QuoteStyle,
    refused: bool,
}

/// Everything that reading a script has found so far.
#[derive(Debug, Default)]
pub(crate) struct ScriptAnalysis {
    slots: Vec<ScriptParam>,
    occurrences: Vec<Occurrence>,
    /// Where a `$` of `$${` must go away.
    escapes: Vec<usize>,
    faults: Vec<ParseError>,
    /// Where the shell stops to read the script as we do.
    unreadable_from: Option<usize>,
    pub(crate) variables: ShellVariables,
    /// Commands that change something outside the worktree.
    pub(crate) outside: Vec<ExternalCommand>,
}

impl ScriptAnalysis {
    pub(crate) fn add_error(&mut self, fault: ParseError) {
        self.faults.push(fault);
    }

    /// Notes that the shell does not understand the script from here on, so that nobody knows
    /// what becomes of the rest.
    pub(crate) fn note_unreadable(&mut self, at: usize) {
        self.unreadable_from.get_or_insert(at);
    }

    pub(crate) fn add_escape(&mut self, at: usize) {
        self.escapes.push(at);
    }

    /// Adds a reference and returns its number.
    pub(crate) fn add_reference(&mut self, reference: VarReference, quoting: Quoting) -> usize {
        let range = reference.range();
        let known = self.slots.iter().position(|slot| slot.reference.is_same_value(&reference));
        let slot = known.unwrap_or(self.slots.len());
        if known.is_none() {
            self.slots.push(ScriptParam { reference, checks: Vec::new() });
        }
        let spelling = match quoting {
            Quoting::None | Quoting::Refused(_) => QuoteStyle::Quoted,
            Quoting::Double | Quoting::Here => QuoteStyle::Bare,
            Quoting::Single => QuoteStyle::Single,
            Quoting::AnsiC => QuoteStyle::AnsiC,
            Quoting::Arithmetic => QuoteStyle::Arithmetic,
        };
        let number = self.occurrences.len();
        self.occurrences.push(Occurrence { slot, range: range.clone(), spelling, refused: false });
        if let Quoting::Refused(refusal) = quoting {
            self.refuse(range, refusal);
        } else if quoting == Quoting::Arithmetic {
            self.constrain_reference(number, ValueConstraint::Integer);
        } else if quoting != Quoting::None {
            self.forbid_words_filter(number, IN_QUOTES);
        }
        number
    }

    fn shell_filter(&self, occurrence: &Occurrence) -> Option<TemplateFilter> {
        self.slots.get(occurrence.slot).and_then(|slot| slot.reference.shell_filter())
    }

    /// Returns true if a range of the script has references that rules apply to;
    /// the author answers for `raw`.
    pub(crate) fn has_values(&self, range: &Range<usize>) -> bool {
        self.within(range)
            .any(|(_, occurrence)| self.shell_filter(occurrence) != Some(TemplateFilter::Raw))
    }

    fn within(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, &Occurrence)> {
        let range = range.clone();
        self.occurrences.iter().enumerate().filter(move |(_, found)| {
            range.start <= found.range.start && found.range.end <= range.end
        })
    }

    /// Refuses every reference in a stretch of the script, and every variable that holds one.
    pub(crate) fn refuse(&mut self, range: Range<usize>, refusal: PlacementError<'_>) {
        self.variables.refuse(&range, refusal);
        self.refuse_references(&range, refusal);
    }

    /// Refuses every reference in a stretch of the script; variables may stand there.
    pub(crate) fn refuse_references(&mut self, range: &Range<usize>, refusal: PlacementError<'_>) {
        self.refuse_if(range, refusal, |filter| filter != Some(TemplateFilter::Raw));
    }

    /// Refuses the references of a word that may become several words.
    pub(crate) fn refuse_words_filter(&mut self, word: &ShellWord, reason: &'static str) {
        for number in &word.references {
            self.forbid_words_filter(*number, reason);
        }
    }

    fn forbid_words_filter(&mut self, number: usize, reason: &'static str) {
        let help = "leave `|words` out, or move the reference to a place of its own";
        if let Some(range) = self.range_of(number) {
            self.refuse_if(&range, PlacementError { reason, help }, |filter| {
                filter == Some(TemplateFilter::Words)
            });
        }
    }

    fn refuse_if(
        &mut self,
        range: &Range<usize>,
        refusal: PlacementError<'_>,
        applies: impl Fn(Option<TemplateFilter>) -> bool,
    ) {
        let hit: Vec<usize> = self
            .within(range)
            .filter(|(_, found)| !found.refused && applies(self.shell_filter(found)))
            .map(|(number, _)| number)
            .collect();
        for number in hit {
            let Some(found) = self.occurrences.get_mut(number) else { continue };
            found.refused = true;
            let Some(slot) = self.slots.get(found.slot) else { continue };
            let reference = format!("${{{}}}", slot.reference.path_text());
            let opening = reference.trim_end_matches('}');
            self.faults.push(ParseError {
                range: found.range.clone(),
                message: format!("`{reference}` {}", refusal.reason),
                help: Some(refusal.help.replace("${x", opening)),
            });
        }
    }

    /// Refuses the use of a variable that holds references, unless all of them are refused already.
    fn refuse_use(&mut self, found: ForbiddenUse) {
        let mut held = found
            .held
            .iter()
            .filter_map(|number| self.occurrences.get(*number))
            .filter(|value| !value.refused)
            .filter_map(|value| self.slots.get(value.slot));
        let is_ours =
            |slot: &&ScriptParam| slot.reference.shell_filter() != Some(TemplateFilter::Raw);
        let Some(slot) = held.find(is_ours) else { return };
        if self.faults.iter().any(|fault| fault.range == found.range) {
            return;
        }
        let ForbiddenUse { name, range, reason, help, .. } = found;
        let reference = format!("${{{}}}", slot.reference.path_text());
        let opening = reference.trim_end_matches('}');
        let holder = match name.as_str() {
            "@" => "an argument".to_owned(),
            output if output.starts_with('$') => "the output".to_owned(),
            name => format!("`${name}`"),
        };
        self.faults.push(ParseError {
            range,
            message: format!("{holder} holds `{reference}`, and {reason}"),
            help: Some(help.replace("${x", opening)),
        });
    }

    /// Demands something of every value that stands directly in a word.
    pub(crate) fn constrain(&mut self, word: &ShellWord, check: ValueConstraint) {
        for number in &word.references {
            self.constrain_reference(*number, check);
        }
        for name in &word.carried.variables {
            self.variables.demand(name, check);
        }
    }

    /// Demands something of the value of one reference.
    pub(crate) fn constrain_reference(&mut self, number: usize, check: ValueConstraint) {
        let Some(found) = self.occurrences.get(number) else { return };
        if let Some(slot) = self.slots.get_mut(found.slot)
            && slot.reference.shell_filter() != Some(TemplateFilter::Raw)
            && !slot.checks.contains(&check)
        {
            slot.checks.push(check);
        }
    }

    /// Returns the range of an occurrence.
    pub(crate) fn range_of(&self, number: usize) -> Option<Range<usize>> {
        self.occurrences.get(number).map(|found| found.range.clone())
    }

    /// Cuts the script into pieces.
    pub(crate) fn finish(mut self, source: &str) -> Result<ScannedScript, Vec<ParseError>> {
        for range in self.variables.evaluated_ranges() {
            self.refuse(range, EVALUATED);
        }
        if let Some(at) = self.unreadable_from {
            self.refuse(at..source.len(), UNREADABLE);
        }
        if self.occurrences.is_empty() {
            self.variables = ShellVariables::default();
        }
        let (demanded, refused) = std::mem::take(&mut self.variables).resolve();
        for (number, check) in demanded {
            self.constrain_reference(number, check);
        }
        for found in refused {
            self.refuse_use(found);
        }
        if !self.faults.is_empty() {
            self.faults.sort_by_key(|fault| fault.range.start);
            return Err(self.faults);
        }
        let mut edits: Vec<(Range<usize>, Option<ScriptPart>)> =
            self.escapes.iter().map(|at| (*at..at + 1, None)).collect();
        edits.extend(self.occurrences.iter().map(|found| {
            let piece = ScriptPart::Value { slot: found.slot, spelling: found.spelling };
            (found.range.clone(), Some(piece))
        }));
        edits.sort_by_key(|(range, _)| range.start);
        let mut pieces = Vec::new();
        let mut pos = 0;
        for (range, piece) in edits {
            pieces.push(ScriptPart::Literal(
                source.get(pos..range.start).unwrap_or_default().to_owned(),
            ));
            pieces.extend(piece);
            pos = range.end;
        }
        pieces.push(ScriptPart::Literal(source.get(pos..).unwrap_or_default().to_owned()));
        Ok(ScannedScript { slots: self.slots, pieces, outside: self.outside })
    }
}

const UNREADABLE: PlacementError<'static> = PlacementError {
    reason: "follows something that the shell cannot read, so nobody knows what it does with it",
    help: "fix the script before it; `bash -n` says where",
};
const IN_QUOTES: &str = "has the filter `words`, which only works outside of quotes";
