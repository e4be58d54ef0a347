module github.com/stilelock/stile/sqlite

go 1.26.0
