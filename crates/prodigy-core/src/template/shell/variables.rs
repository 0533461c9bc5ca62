//! Shell variables: where the values of a script go before they are used.
//!
//! A value that was put into a variable is refused where the value itself would be: as a command,
//! as text that a program reads again, as the name of a variable. In arithmetic bash runs what a
//! value such as `a[$(command)]` hides, so there it must be a whole number. The order of commands
//! is not looked at: a variable that ever gets a value has it everywhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    analysis::{PlacementError, ValueConstraint},
    programs::COUNTERS,
    word::ShellWord,
};

/// The name under which the arguments of the script and of its functions are known: `$1`, `$@`.
pub(super) const ARGUMENTS: &str = "@";

/// Everything that a word, a list of words or a document carries into a variable.
#[derive(Clone, Debug, Default)]
pub(super) struct CarriedValues {
    /// The numbers of references.
    pub(super) references: Vec<usize>,
    /// The names of variables.
    pub(super) variables: Vec<String>,
}

impl CarriedValues {
    pub(super) fn extend(&mut self, other: &Self) {
        self.references.extend(&other.references);
        self.variables.extend(other.variables.iter().cloned());
    }

    /// Returns what some words carry together.
    pub(super) fn from_words(words: &[ShellWord]) -> Self {
        let mut carried = Self::default();
        for word in words {
            carried.extend(&word.carried);
        }
        carried
    }
}

/// A place where a variable is used.
#[derive(Clone, Debug)]
struct VariableUse {
    name: String,
    range: Range<usize>,
    /// Set if the shell splits the variable's value into words.
    is_split: bool,
}

/// A use that is refused if the variable has a value of the template.
#[derive(Clone, Debug)]
pub(super) struct ForbiddenUse {
    pub(super) name: String,
    pub(super) range: Range<usize>,
    pub(super) reason: String,
    pub(super) help: String,
    /// The references whose values the variable may hold.
    pub(super) held: Vec<usize>,
}

/// The variables of a script and their uses.
#[derive(Debug, Default)]
pub(super) struct ShellVariables {
    lists: BTreeSet<String>,
    evaluated: BTreeSet<String>,
    assigned: Vec<(String, Range<usize>)>,
    declared: Vec<(String, Range<usize>)>,
    uses: Vec<VariableUse>,
    flows: Vec<(String, CarriedValues)>,
    /// Commands with their arguments, and the substitution that they stand in.
    calls: Vec<(String, CarriedValues, Option<String>)>,
    functions: BTreeSet<String>,
    demands: BTreeMap<String, Vec<ValueConstraint>>,
    refused: Vec<ForbiddenUse>,
    output: OutputFlow,
}

/// Where the output of the command goes that is being read.
#[derive(Debug, Default)]
struct OutputFlow {
    /// The number of outputs that have a name of their own.
    count: usize,
    /// The substitutions that are open, the innermost last.
    open: Vec<String>,
    /// The values that the commands of the pipeline have printed since its last pipe.
    printed: CarriedValues,
    /// The name for what has gone through a pipe of it.
    piped: String,
    /// The name for what comes in by a document or a file of the pipeline.
    documents: String,
    /// The program that was read last.
    last_program: String,
}

impl ShellVariables {
    /// Notes that a variable is a list.
    pub(super) fn note_list(&mut self, name: &str) {
        self.lists.insert(name.to_owned());
    }

    /// Notes that a variable is an integer or stands for another one.
    pub(super) fn note_evaluated(&mut self, name: &str) {
        self.evaluated.insert(name.to_owned());
    }

    /// Notes that a variable gets what stands in a stretch of the script.
    pub(super) fn note_assigned(&mut self, name: &str, range: Range<usize>) {
        self.assigned.push((name.to_owned(), range));
    }

    /// Notes that a variable gets a value in `declare` or its like.
    pub(super) fn note_declared(&mut self, name: &str, range: Range<usize>) {
        self.declared.push((name.to_owned(), range));
    }

    /// Notes a function of the script.
    pub(super) fn note_function(&mut self, name: &str) {
        self.functions.insert(name.to_owned());
    }

    /// Notes a command and its arguments; it may turn out to be a function.
    pub(super) fn note_call(&mut self, name: &str, arguments: &[ShellWord]) {
        let output = self.output.open.last().cloned();
        self.calls.push((name.to_owned(), CarriedValues::from_words(arguments), output));
        let is_counted = name == "grep"
            && arguments.iter().any(|word| word.text.starts_with('-') && word.text.contains('c'));
        let program = if is_counted { "wc" } else { name };
        program.clone_into(&mut self.output.last_program);
    }

    /// Notes that a variable, or the output of something, gets values.
    pub(super) fn note_flow(&mut self, name: &str, carried: &CarriedValues) {
        if !carried.references.is_empty() || !carried.variables.is_empty() {
            self.flows.push((name.to_owned(), carried.clone()));
        }
    }

    /// Notes that a variable is used somewhere.
    pub(super) fn note_use(&mut self, name: &str, range: Range<usize>, is_split: bool) {
        self.uses.push(VariableUse { name: name.to_owned(), range, is_split });
    }

    /// Returns a name for an output, which no variable has.
    pub(super) fn new_output(&mut self) -> String {
        self.output.count += 1;
        format!("${}", self.output.count)
    }

    /// Begins a substitution.
    pub(super) fn begin_output(&mut self) {
        let output = self.new_output();
        self.output.open.push(output);
        self.output.last_program.clear();
    }

    /// Ends a substitution, and returns the name of its output.
    pub(super) fn end_output(&mut self) -> String {
        let output = self.output.open.pop().unwrap_or_default();
        // Some print numbers, whatever they are given.
        let is_counted = COUNTERS.contains(&self.output.last_program.as_str());
        if is_counted { self.new_output() } else { output }
    }

    /// Begins a pipeline: nothing printed before comes in.
    pub(super) fn begin_pipeline(&mut self) {
        self.output.printed = CarriedValues::default();
        self.output.piped = self.new_output();
        self.output.documents = self.new_output();
    }

    /// Notes that what was printed goes on to the next command.
    pub(super) fn pipe(&mut self) {
        // A command sees what was printed before it, and nothing of what follows.
        let mut carried = std::mem::take(&mut self.output.printed);
        carried.variables.push(std::mem::take(&mut self.output.piped));
        self.output.piped = self.new_output();
        let piped = self.output.piped.clone();
        self.note_flow(&piped, &carried);
    }

    /// Notes what a command prints.
    pub(super) fn note_printed(&mut self, carried: &CarriedValues) {
        self.output.printed.extend(carried);
        if let Some(output) = self.output.open.last().cloned() {
            self.note_flow(&output, carried);
        }
    }

    /// Notes what a command finds on its standard input, from the script itself.
    pub(super) fn note_document(&mut self, carried: &CarriedValues) {
        let name = self.output.documents.clone();
        self.note_flow(&name, carried);
        self.note_printed(carried);
    }

    /// Notes that a variable gets what is on standard input.
    pub(super) fn note_read(&mut self, name: &str) {
        let OutputFlow { piped, documents, .. } = &self.output;
        let variables = vec![piped.clone(), documents.clone()];
        self.note_flow(name, &CarriedValues { references: Vec::new(), variables });
    }

    /// Demands something of the variables in a stretch of the script.
    pub(super) fn demand_of_uses(&mut self, range: &Range<usize>, check: ValueConstraint) {
        let names: Vec<String> = self.uses_in(range).map(|found| found.name.clone()).collect();
        for name in names {
            self.demand(&name, check);
        }
    }

    /// Demands something of every value that a variable ever has.
    pub(super) fn demand(&mut self, name: &str, check: ValueConstraint) {
        let checks = self.demands.entry(name.to_owned()).or_default();
        if !checks.contains(&check) {
            checks.push(check);
        }
    }

    /// Demands whole numbers of all variables that a stretch of arithmetic names, with or
    /// without a `$`.
    pub(super) fn demand_numbers(&mut self, arithmetic: &str) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in arithmetic.split(|c: char| !is_part(c)) {
            if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                self.demand(name, ValueConstraint::NumberInVariable);
            }
        }
        let after_dollar = arithmetic.split('$').skip(1);
        if after_dollar.clone().any(|text| {
            text.trim_start_matches('{')
                .starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c))
        }) {
            self.demand(ARGUMENTS, ValueConstraint::NumberInVariable);
        }
    }

    /// Refuses the uses of variables in a stretch of the script.
    pub(super) fn refuse(&mut self, range: &Range<usize>, refusal: PlacementError<'_>) {
        self.refuse_if(range, refusal, |_| true);
    }

    /// Refuses the uses of variables in a stretch of the script that the shell splits into words.
    pub(super) fn refuse_split(&mut self, range: &Range<usize>, refusal: PlacementError<'_>) {
        self.refuse_if(range, refusal, |found| found.is_split);
    }

    fn refuse_if(
        &mut self,
        range: &Range<usize>,
        refusal: PlacementError<'_>,
        applies: impl Fn(&VariableUse) -> bool,
    ) {
        let within = self.uses_in(range).filter(|found| applies(found));
        let refused: Vec<_> = within
            .map(|found| ForbiddenUse {
                name: found.name.clone(),
                range: found.range.clone(),
                reason: refusal.reason.to_owned(),
                help: refusal.help.to_owned(),
                held: Vec::new(),
            })
            .collect();
        self.refused.extend(refused);
    }

    /// Returns the uses in a stretch of the script. They were noted in the order of their ends.
    fn uses_in(&self, range: &Range<usize>) -> impl Iterator<Item = &VariableUse> {
        let Range { start, end } = *range;
        let uses = self.uses.iter().rev().take_while(move |found| found.range.end > start);
        uses.filter(move |found| start <= found.range.start && found.range.end <= end)
    }

    /// Returns the stretches whose values bash would evaluate.
    pub(super) fn evaluated_ranges(&self) -> Vec<Range<usize>> {
        let assigned = self.assigned.iter().filter(|(name, _)| self.evaluated.contains(name));
        let declared = self.declared.iter().filter(|(name, _)| self.lists.contains(name));
        assigned.chain(declared).map(|(_, range)| range.clone()).collect()
    }

    /// Follows the values, and returns what is demanded of which reference, and the refused uses.
    pub(super) fn resolve(self) -> (Vec<(usize, ValueConstraint)>, Vec<ForbiddenUse>) {
        let Self { mut flows, calls, functions, demands, refused, .. } = self;
        for (name, carried, output) in calls {
            if functions.contains(&name) {
                flows.extend(output.map(|output| (output, carried.clone())));
                flows.push((ARGUMENTS.to_owned(), carried));
            }
        }
        let reach = reachable_references(&flows);
        let of = |name: &str| reach.get(name).into_iter().flatten().copied();
        let demanded = demands.iter().flat_map(|(name, checks)| {
            of(name).flat_map(move |number| checks.iter().map(move |check| (number, *check)))
        });
        let demanded = demanded.collect();
        let refused = refused.into_iter().map(|found| {
            let held = of(&found.name).collect();
            ForbiddenUse { held, ..found }
        });
        (demanded, refused.collect())
    }
}

/// Returns which references each variable may have the value of.
fn reachable_references(flows: &[(String, CarriedValues)]) -> BTreeMap<&str, BTreeSet<usize>> {
    let mut reach: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut is_growing = true;
    while is_growing {
        is_growing = false;
        for (name, carried) in flows {
            let mut values: BTreeSet<usize> = carried.references.iter().copied().collect();
            for variable in &carried.variables {
                values.extend(reach.get(variable.as_str()).into_iter().flatten());
            }
            let known = reach.entry(name).or_default();
            let before = known.len();
            known.extend(values);
            is_growing |= known.len() > before;
        }
    }
    reach
}

pub(super) const EVALUATED: PlacementError<'static> = PlacementError {
    reason: "is assigned to a variable that bash evaluates: an integer, a list or a name reference",
    help: "use a plain variable of another name: `value=${x}`",
};
