module github.com/stilelock/stile

go 1.26.0
