//! The whole file: which kind it is, and what all its parts may refer to.

use super::{collect::Found, context::Lower, fields::Fields, map::LEFTOVERS, scope::Scope};
use crate::{
    diagnostic::{Diagnostic, Sources},
    policy::{Budget, QuotaPolicy},
    workflow::{Body, Isolation, Leftovers, MapReduce, Phase, Workflow},
    yaml::YamlNode,
};

/// Turns the tree of a workflow into the model.
///
/// `diagnostics` holds what the structural check found and gets what is found here.
/// A workflow may come back although there are errors; it is not to be used then.
pub(in crate::workflow) fn lower(
    root: &YamlNode,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Workflow> {
    let mut lower = Lower::new(sources, diagnostics);
    if root.as_sequence().is_some() {
        return Some(lower.bare_list(root));
    }
    let fields = lower.fields(root)?;
    lower.file(fields)
}

impl Lower<'_> {
    /// Reads a file that is only a list of steps.
    fn bare_list(&mut self, root: &YamlNode) -> Workflow {
        let found = Found::of(Some(root));
        self.check_names([&found]);
        // Rounds of the whole workflow have the names of a loop.
        let steps = self.steps(root, &Scope::phase(found.captures()).with_loop());
        Workflow {
            name: None,
            env: Vec::new(),
            env_files: Vec::new(),
            secrets: Vec::new(),
            profiles: std::collections::BTreeMap::new(),
            parameters: Vec::new(),
            agents: std::collections::BTreeMap::new(),
            budget: Budget::default(),
            quota: QuotaPolicy::default(),
            sandbox: None,
            merge: None,
            body: Body::Sequential { steps, leftovers: Leftovers::default() },
        }
    }

    fn file(&mut self, mut fields: Fields<'_>) -> Option<Workflow> {
        let settings = Scope::settings();
        let parameters = fields.take("parameters");
        let declared = parameters.and_then(YamlNode::as_mapping);
        self.parameters =
            declared.map(|entries| entries.iter().map(|(key, _)| key.text.clone()).collect());
        let parameters = parameters.map(|node| self.parameters(node)).unwrap_or_default();
        let name = fields.take("name").and_then(|node| self.filled(node));
        let mode = fields.take("mode");
        let mode =
            mode.and_then(|node| self.word(node, &[("sequential", false), ("mapreduce", true)]));
        // Without a mode the file is wrong, but its keys still say which kind is meant.
        let has_steps = fields.has("steps") || fields.has("commands");
        let (body, merge) = if mode.unwrap_or(fields.has("map") && !has_steps) {
            self.mapreduce(&mut fields)
        } else {
            self.steps_file(&mut fields)
        };
        let env = fields.take("env").map(|node| self.env(node, &settings)).unwrap_or_default();
        let env_files = fields.take("env_files").map(|node| self.env_files(node));
        let secrets = fields.take("secrets").map(|node| self.secrets(node));
        let profiles = fields.take("profiles").map(|node| self.profiles(node, &settings));
        let budget = fields.take("budget").and_then(|node| self.budget(node));
        let quota = fields.take("quota").and_then(|node| self.quota(node));
        let agents = fields.take("agents").map(|node| self.agents(node));
        let sandbox = fields.take("sandbox").and_then(|node| self.sandbox(node));
        self.finish(fields);
        Some(Workflow {
            name,
            env,
            env_files: env_files.unwrap_or_default(),
            secrets: secrets.unwrap_or_default(),
            profiles: profiles.unwrap_or_default(),
            parameters,
            agents: agents.unwrap_or_default(),
            budget: budget.unwrap_or_default(),
            quota: quota.unwrap_or_default(),
            sandbox,
            merge,
            body: body?,
        })
    }

    fn steps_file(&mut self, fields: &mut Fields<'_>) -> (Option<Body>, Option<Phase>) {
        let steps = fields.take_either("steps", "commands");
        let merge = fields.take("merge");
        let (found, found_merge) = (Found::of(steps), Found::of(merge));
        self.check_names([&found, &found_merge]);
        let scope = Scope::phase(found.captures()).with_loop();
        if steps.is_none() {
            self.unusable(fields.span, "there are no steps");
        }
        let leftovers = fields.take("leftovers").and_then(|node| self.word(node, LEFTOVERS));
        let leftovers = leftovers.unwrap_or_default();
        let body =
            steps.map(|node| Body::Sequential { steps: self.steps(node, &scope), leftovers });
        let scope = Scope::phase(found.captures().chain(found_merge.captures())).and(&["merge"]);
        (body, merge.and_then(|node| self.phase(node, &scope.uncommitted())))
    }

    fn mapreduce(&mut self, fields: &mut Fields<'_>) -> (Option<Body>, Option<Phase>) {
        let [setup, reduce, merge] = ["setup", "reduce", "merge"].map(|name| fields.take(name));
        let map = self.required(fields, "map");
        let policy = fields.peek("error_policy");
        let found = [setup, map, policy, reduce, merge].map(Found::of);
        self.check_names(&found);
        let [in_setup, in_map, in_policy, in_reduce, in_merge] = &found;
        self.setup_names = in_setup.captures().cloned().collect();
        // A variable lives from its phase on; those of an item die with the item.
        let start = Scope::phase(in_setup.captures()).and(&["setup"]);
        let item = start.adding(in_map.captures()).adding(in_policy.captures()).with_item(&start);
        let late = start.adding(in_reduce.captures()).and(&["map"]);
        let last = late.adding(in_merge.captures()).and(&["merge"]);
        let setup = setup.and_then(|node| self.setup(node, &start));
        let map = map.and_then(|node| self.map(node, &start, &item));
        let reduce = reduce.and_then(|node| self.phase(node, &late));
        // The target is to hold the job's branch as it was when the merge began.
        let merge = merge.and_then(|node| self.phase(node, &last.uncommitted()));
        let is_shared = map.as_ref().is_some_and(|map| map.isolation == Isolation::Shared);
        let item = if is_shared { item.uncommitted() } else { item };
        let error_policy = self.error_policy(fields, &item);
        let body = map.map(|map| MapReduce { setup, map, reduce, error_policy });
        (body.map(Box::new).map(Body::MapReduce), merge)
    }
}
