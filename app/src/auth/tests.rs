use super::*;
use crate::config::{AuthKey, NamedKey};
