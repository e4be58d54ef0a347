module github.com/stilelock/stile/cmd/stile

go 1.26.0
