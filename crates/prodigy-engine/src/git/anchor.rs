//! A short text that is kept in a reference of the repository, out of reach of files.

use super::{Error, Repo, plumbing::unexpected_output, tree::is_hash};

/// The text in a reference, with its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnchor {
    /// The text.
    pub text: String,
    /// The object that has it.
    object: String,
}

impl Repo {
    /// Returns the text that a reference holds; `None` if there is none.
    pub fn read_anchor(&self, name: &str) -> Result<Option<AuditAnchor>, Error> {
        let call = self.call(&["cat-file", "--batch"]).stdin(format!("{name}\n")).read_only();
        let output = call.run()?.stdout;
        let text = String::from_utf8_lossy(&output);
        let (head, content) = text.split_once('\n').unwrap_or((&text, ""));
        let words: Vec<_> = head.split(' ').collect();
        match words.as_slice() {
            [object, "blob", _] if is_hash(object) => {
                let text = content.strip_suffix('\n').unwrap_or(content);
                Ok(Some(AuditAnchor { text: text.to_owned(), object: (*object).to_owned() }))
            }
            [_, "missing"] => Ok(None),
            _ => Err(unexpected_output("cat-file")),
        }
    }

    /// Makes a reference hold another text; fails if it no longer holds the old one.
    pub fn move_anchor(
        &self,
        name: &str,
        text: &str,
        old: Option<&AuditAnchor>,
    ) -> Result<AuditAnchor, Error> {
        let call = self.call(&["hash-object", "-w", "--no-filters", "--stdin"]).stdin(text);
        let object = call.durable().run_text()?;
        if !is_hash(&object) {
            return Err(unexpected_output("hash-object"));
        }
        // An empty name stands for a reference that is not there yet.
        let old = old.map_or("", |old| &old.object);
        // What is in the place of the reference is replaced, not what it may lead to.
        let call = self.call(&["update-ref", "--no-deref", name, &object, old]);
        call.durable().run()?;
        Ok(AuditAnchor { text: text.to_owned(), object })
    }
}
