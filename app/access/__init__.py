"""Who may do what: sign-in, roles, owners and limits. Without sign-in, everyone who opens the app may do everything."""
