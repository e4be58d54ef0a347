//go:build !no_etcd

package main

import _ "github.com/stilelock/stile/store/etcd"
