//! Keys of the sandbox: access of steps to the machine.

use super::{
    settings::TEXTS,
    shape::{KeyShape, RecordShape, Shape, TaggedShape},
};

/// `sandbox`, as a word or in full.
pub(super) const SANDBOX: Shape =
    Shape::OneOf(&[Shape::Word(&["none", "bubblewrap"]), Shape::Tagged(&SANDBOX_KIND)]);

static SANDBOX_KIND: TaggedShape =
    TaggedShape { name: "sandbox", tag: "type", variants: &[("bubblewrap", &BUBBLEWRAP)] };

static BUBBLEWRAP: RecordShape = RecordShape {
    name: "bubblewrap",
    title: "a sandbox of type `bubblewrap`",
    doc: "What steps may reach when they run in bubblewrap (Linux).",
    groups: &[&[
        KeyShape::new("type", Shape::Word(&["bubblewrap"]), "The kind of sandbox.").require(),
        KeyShape::new("network", Shape::Word(&["on", "off"]), "Gives or takes the network.")
            .or("`on`"),
        KeyShape::new(
            "write",
            TEXTS,
            "Paths that may be written besides the worktree: absolute, from `~/`, or from your checkout.",
        )
        .or("none"),
        KeyShape::new(
            "read",
            TEXTS,
            "Paths that may be read although they hold secrets, such as `~/.ssh`.",
        )
        .or("none"),
    ]],
    choice: None,
    rule: None,
};
