//! The map phase.

use std::num::NonZeroU32;

use super::{context::Lower, fields::Fields, read::at_least_one, scope::Scope};
use crate::{
    diagnostic::Diagnostic,
    expr::ExprContext,
    items::Selection,
    template::{ShellDialect, TemplateKind},
    workflow::{
        Isolation, Leftovers, Map, MapInput, OnConflict, ResultConfig, Step, WorktreeConfig,
    },
    yaml::YamlNode,
};

/// The default maximum number of items in flight.
const MAX_PARALLEL: NonZeroU32 = at_least_one(10);

const ISOLATIONS: &[(&str, Isolation)] =
    &[("worktree", Isolation::Worktree), ("shared", Isolation::Shared)];

pub(super) const LEFTOVERS: &[(&str, Leftovers)] =
    &[("keep", Leftovers::Keep), ("commit", Leftovers::Commit), ("discard", Leftovers::Discard)];

impl Lower<'_> {
    /// Reads the map phase; `outer` has the names that exist without an item.
    pub(super) fn map(&mut self, node: &YamlNode, outer: &Scope, scope: &Scope) -> Option<Map> {
        let mut fields = self.fields(node)?;
        let input = self.required(&mut fields, "input");
        let input = input.and_then(|node| self.map_input(node, outer));
        let isolation = fields.take("isolation").and_then(|node| self.word(node, ISOLATIONS));
        let scope = match isolation {
            // One item would commit what another has half done.
            Some(Isolation::Shared) => &scope.uncommitted(),
            Some(Isolation::Worktree) | None => scope,
        };
        let steps = self.required(&mut fields, "agent_template");
        let steps = steps.map(|node| self.agent_template(node, scope));
        let worktree = fields.take("worktree").and_then(|node| self.worktree(node, outer));
        let result = fields.take("result").and_then(|node| self.result(node));
        let selection = self.selection(&mut fields);
        let max_parallel = fields.take("max_parallel").and_then(|node| self.count(node));
        let timeout = fields.take_either("agent_timeout_secs", "agent_timeout");
        let timeout = fields.take("timeout_per_agent").or(timeout);
        let agent_timeout = timeout.and_then(|node| self.limit(node));
        let on_conflict = fields.take("on_conflict");
        if let (Some(node), Some(Isolation::Shared)) = (on_conflict, isolation) {
            let message = "`isolation: shared` has no conflicts: all items work in one worktree";
            self.report(Diagnostic::error(node.span, message).help("take `on_conflict` out"));
        }
        let on_conflict = on_conflict.and_then(|node| self.on_conflict(node));
        let leftovers = fields.take("leftovers").and_then(|node| self.word(node, LEFTOVERS));
        self.finish(fields);
        Some(Map {
            input: input?,
            steps: steps?,
            max_parallel: max_parallel.unwrap_or(MAX_PARALLEL),
            agent_timeout,
            isolation: isolation.unwrap_or(Isolation::Worktree),
            worktree: worktree.unwrap_or_default(),
            result: result.unwrap_or_default(),
            on_conflict: on_conflict.unwrap_or_default(),
            leftovers: leftovers.unwrap_or_default(),
            json_path: selection.json_path,
            filter: selection.filter,
            sort_by: selection.sort_by,
            distinct: selection.distinct,
            offset: selection.offset,
            max_items: selection.max_items,
            item_key: selection.item_key,
        })
    }

    fn selection(&mut self, fields: &mut Fields<'_>) -> Selection {
        let mut item = |name| {
            fields.take(name).and_then(|node: &YamlNode| self.expression(node, ExprContext::Item))
        };
        let filter = item("filter");
        let distinct = item("distinct");
        let item_key = item("item_key");
        Selection {
            filter,
            distinct,
            item_key,
            sort_by: fields.take("sort_by").and_then(|node| self.sort_by(node)),
            json_path: fields.take("json_path").and_then(|node| self.json_path(node)),
            offset: fields.take("offset").and_then(|node| self.whole(node)).unwrap_or_default(),
            max_items: fields.take("max_items").and_then(|node| self.whole(node)),
        }
    }

    fn agent_template(&mut self, node: &YamlNode, scope: &Scope) -> Vec<Step> {
        if node.as_sequence().is_some() {
            return self.steps(node, scope);
        }
        let Some(mut fields) = self.fields(node) else { return Vec::new() };
        let commands = self.required(&mut fields, "commands");
        self.finish(fields);
        commands.map(|node| self.steps(node, scope)).unwrap_or_default()
    }

    fn map_input(&mut self, node: &YamlNode, scope: &Scope) -> Option<MapInput> {
        if node.as_mapping().is_none() {
            return self.guess(node, scope);
        }
        let mut fields = self.fields(node)?;
        let mut path = |name| {
            fields.take(name).and_then(|node| self.template(node, scope, TemplateKind::Path))
        };
        let file = path("file").map(MapInput::File);
        let glob = path("glob").map(MapInput::Glob);
        let command = fields.take("command");
        let command = command.and_then(|node| self.script(node, scope, ShellDialect::Posix, false));
        let items = fields.take("items").map(|node| self.list(node));
        let items =
            items.map(|items| MapInput::Items(items.iter().map(YamlNode::to_json).collect()));
        self.finish(fields);
        let command = command.map(MapInput::Command);
        let input = [file, command, glob, items].into_iter().flatten().next();
        if input.is_none() {
            self.unusable(node.span, "an input needs a source");
        }
        input
    }

    /// Reads an input that is only a text.
    ///
    /// The choice between a file and a command is made when it is known which files
    /// exist. A value inserted before that could turn a file into a command, so a
    /// text with values must say what it is, unless it can only be a file.
    fn guess(&mut self, node: &YamlNode, scope: &Scope) -> Option<MapInput> {
        let text = self.filled(node)?;
        if !text.contains("${") {
            return self.template(node, scope, TemplateKind::Path).map(MapInput::Guess);
        }
        if text.contains(char::is_whitespace) {
            let message = "this could be a file or a command";
            let help = "write `input: {file: …}` or `input: {command: …}`";
            self.report(Diagnostic::error(node.span, message).help(help));
            return None;
        }
        self.template(node, scope, TemplateKind::Path).map(MapInput::File)
    }

    fn worktree(&mut self, node: &YamlNode, scope: &Scope) -> Option<WorktreeConfig> {
        let mut fields = self.fields(node)?;
        let setup =
            fields.take("setup").map(|node| self.steps(node, &scope.shared().uncommitted()));
        let include = fields.take("include").and_then(|node| self.filled(node));
        let copy = fields.take("copy").map(|node| self.texts(node));
        let link = fields.take("link").map(|node| self.texts(node));
        self.finish(fields);
        Some(WorktreeConfig {
            setup: setup.unwrap_or_default(),
            include,
            copy: copy.unwrap_or_default(),
            link: link.unwrap_or_default(),
        })
    }

    fn on_conflict(&mut self, node: &YamlNode) -> Option<OnConflict> {
        let text = self.filled(node)?;
        match text.as_str() {
            "rerun" => Some(OnConflict::Rerun),
            "fail" => Some(OnConflict::Fail),
            agent => OnConflict::resolve_with(agent, node.span),
        }
    }

    fn result(&mut self, node: &YamlNode) -> Option<ResultConfig> {
        let mut fields = self.fields(node)?;
        let file = fields.take("file").and_then(|node| self.filled(node));
        let json_path = fields.take("json_path").and_then(|node| self.json_path(node));
        let schema = fields.take("schema").and_then(|node| self.schema(node));
        self.finish(fields);
        Some(ResultConfig { file, json_path, schema })
    }
}
