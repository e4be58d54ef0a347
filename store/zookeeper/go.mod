module github.com/stilelock/stile/store/zookeeper

go 1.26.0

require github.com/stilelock/stile v0.1.0
