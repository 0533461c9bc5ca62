//! Identity of a repository's user, as far as its configuration says.

use super::Repo;

impl Repo {
    /// Returns the mail address in the configuration.
    pub fn user_email(&self) -> Option<String> {
        self.setting("user.email").filter(|email| !email.trim().is_empty())
    }

    /// Returns the key that commits are signed with, if they are signed with keys of ssh: the
    /// path of a file, or the public key itself.
    pub fn ssh_signing_key(&self) -> Option<String> {
        let format = self.setting("gpg.format")?;
        if format != "ssh" {
            return None;
        }
        // A path may begin with `~`, which git resolves.
        let call = self.call(&["config", "--type=path", "--get", "user.signingkey"]);
        call.run_text().ok().filter(|key| !key.trim().is_empty())
    }
}
