//go:build !no_sqlite

package main

import _ "github.com/stilelock/stile/store/sqlite"
