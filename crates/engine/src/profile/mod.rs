//! Profiles: what the admin wishes.
