//! Who plays, where a server wants to know.

use std::path::Path;

use sangam_film::{Algorithm, Credentials};

use crate::commands::archive;
use crate::exit::Failure;

/// What a file says, or else a URL.
pub(super) fn of(
    file: Option<&Path>,
    url: Option<(String, String)>,
) -> Result<Option<Credentials>, Failure> {
    let login = match file {
        Some(file) => {
            let found = archive::credentials(file)?;
            Some((found.user, found.password))
        }
        None => url,
    };
    Ok(login.map(|(user, password)| Credentials {
        user,
        password,
        hash,
    }))
}

fn hash(algorithm: Algorithm, text: &str) -> String {
    let algorithm = match algorithm {
        Algorithm::Md5 => sangam_rtsp::Algorithm::Md5,
        Algorithm::Sha256 => sangam_rtsp::Algorithm::Sha256,
    };
    algorithm.hash(text)
}
