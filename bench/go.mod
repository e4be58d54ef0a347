module github.com/stilelock/stile/bench

go 1.26.0
