//! What URLs name: recordings, what is live, and tracks of both.

/// What stands before the names of recordings.
const ARCHIVE: &str = "archive/";
/// What stands before topics.
const LIVE: &str = "live/";
/// What stands before the number of a track.
const TRACK: &str = "/trackID=";

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// The recording of this name.
    Film(&'a str),
    /// What is published on this topic and below.
    Live(&'a str),
}

/// A path's name of what is played, with its folder, and a track of it.
pub(crate) fn name_and_track(path: &str) -> Option<(&str, Option<usize>)> {
    let (name, track) = match path.rsplit_once(TRACK) {
        Some((name, track)) => (name, Some(track.trim_end_matches('/').parse().ok()?)),
        None => (path, None),
    };
    let name = name.trim_end_matches('/');
    named(name).map(|_| (name, track))
}

/// What a name with its folder means.
pub(crate) fn named(name: &str) -> Option<Named<'_>> {
    let film = name.strip_prefix(ARCHIVE).map(Named::Film);
    let named = film.or_else(|| name.strip_prefix(LIVE).map(Named::Live));
    named.filter(|named| {
        let (Named::Film(rest) | Named::Live(rest)) = named;
        !rest.is_empty()
    })
}

/// The URL of what is played, without the track, with a slash at its end.
pub(crate) fn base(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let url = url.rsplit_once(TRACK).map_or(url, |(base, _)| base);
    format!("{}/", url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_film_or_a_topic_and_a_track() {
        for (path, expected) in [
            ("archive/film", Some(("archive/film", None))),
            ("archive/film/", Some(("archive/film", None))),
            ("archive/a/b/trackID=3", Some(("archive/a/b", Some(3)))),
            ("live/a/b/trackID=0/", Some(("live/a/b", Some(0)))),
            ("live/a/trackID=x", None),
            ("live/", None),
            ("live", None),
            ("archive//", None),
            ("elsewhere/film", None),
            ("", None),
        ] {
            assert_eq!(name_and_track(path), expected, "{path}");
        }
        assert_eq!(named("live/a/b"), Some(Named::Live("a/b")));
        assert_eq!(named("archive/a/b"), Some(Named::Film("a/b")));
    }
}
