package shard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
)

func init() { driver.Register("shard", openAddress) }

// openAddress opens the stores that an address names, each as NAME=URL or NAME*WEIGHT=URL: one in each line of a file,
//
//	shard:///etc/stile/stores
//
// with the stores of the previous list after a line "previous:", or all in the address, with semicolons between them:
//
//	shard://?stores=a=redis://h1;b=redis://h2&previous=a
//
// With create=false, stores that are files, or lists of stores, are opened only if they exist: see package sqlite.
//
// A store that cannot be reached is opened later.
func openAddress(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	stores, previous, create := a.Param("stores", ""), a.Param("previous", ""), a.Param("create", "true")
	if err := a.Done(); err != nil {
		return nil, err
	}
	var lists [2][]entry
	var err error
	switch {
	case a.User != "" || a.Password != "" || len(a.Hosts) > 0:
		err = errors.New("a shard:// URL has no user and no host: it is shard:///path of a file, or shard://?stores=")
	case (a.Path == "") == (stores == ""):
		err = errors.New("a shard:// URL has either the path of a file with the stores, or parameter stores")
	case create != "true" && create != "false":
		err = errors.New("parameter create must be true or false")
	case a.Path != "" && previous != "":
		err = errors.New("parameter previous is for a URL with parameter stores: the file has a part for it")
	case a.Path != "":
		lists, err = readFile("/" + a.Path)
	default:
		if lists[0], err = entries("parameter stores", strings.Split(stores, ";")); err == nil && previous != "" {
			lists[1], err = entries("parameter previous", strings.Split(previous, ";"))
		}
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	if create == "false" {
		onlyExisting(lists[0])
		onlyExisting(lists[1])
	}
	return openLists(ctx, lists[0], lists[1])
}

// onlyExisting sets create=false in the URLs of stores that would otherwise be made.
func onlyExisting(list []entry) {
	for i := range list {
		e := &list[i]
		a, err := driver.ParseAddress(e.url)
		if err != nil || a.Scheme != "sqlite" && a.Scheme != "shard" || a.Param("create", "") != "" {
			continue // a fault in it is reported when it is opened
		}
		separator := "?"
		if strings.Contains(e.url, "?") {
			separator = "&"
		}
		e.url += separator + "create=false"
	}
}

// An entry is a store in a written list.
type entry struct {
	Store
	url string // may be empty in the previous list, if the present one has it
}

// readFile reads the two lists in a file.
func readFile(path string) (lists [2][]entry, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return lists, err
	}
	var lines [2][]string
	part := 0
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		switch line := strings.TrimSpace(in.Text()); {
		case strings.HasPrefix(line, "#"):
		case line == "previous:" && part == 0:
			part = 1
		default:
			lines[part] = append(lines[part], line)
		}
	}
	for i := range lists {
		if lists[i], err = entries(path, lines[i]); err != nil {
			return lists, err
		}
	}
	return lists, nil
}

// entries parses stores. The errors do not show them, since they may contain passwords.
func entries(where string, texts []string) ([]entry, error) {
	var list []entry
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		name, url, _ := strings.Cut(text, "=")
		name, weight, weighs := strings.Cut(name, "*")
		e := entry{Store: Store{Name: name}, url: url}
		bad := func(why string) error {
			return fmt.Errorf("%s: store %d %s (the text is not shown: it may hold a password)", where, len(list)+1, why)
		}
		if name == "" || driver.EncodeName(name) != name {
			return nil, bad("is not written as NAME=URL, with a NAME of letters, digits, '-', '_' and '.'")
		}
		if weighs {
			n, err := strconv.Atoi(weight)
			if err != nil || n < 1 || n > MaxWeight {
				return nil, bad(fmt.Sprintf("has a weight that is not a number from 1 to %d", MaxWeight))
			}
			e.Weight = n
		}
		if scheme, _, _ := strings.Cut(url, "://"); strings.Contains(scheme, " ") {
			return nil, bad("has a space in its scheme: in a parameter, + is written %2B")
		}
		list = append(list, e)
	}
	return list, nil
}

// openLists opens all stores at once, and makes a driver of them.
func openLists(ctx context.Context, present, previous []entry) (driver.Driver, error) {
	lists := [][]entry{present, previous}
	opened, err := distinct(lists)
	if err != nil {
		return nil, driver.Refused(err)
	}
	if len(present) == 0 {
		return nil, driver.Refused(errors.New("there must be at least one store"))
	}
	errs := make([]error, len(opened))
	var work sync.WaitGroup
	for i, e := range opened {
		work.Go(func() { e.Driver, errs[i] = driver.Open(ctx, e.url) })
	}
	work.Wait()
	if err := settle(opened, errs); err != nil {
		for _, e := range opened {
			if e.Driver != nil {
				e.Driver.Close()
			}
		}
		return nil, err
	}
	var given [2][]Store
	for i, list := range lists {
		for _, e := range list {
			given[i] = append(given[i], e.Store)
		}
	}
	return New(given[0], &Options{Previous: given[1]})
}

// distinct returns the stores of some lists, each once, with its URL.
func distinct(lists [][]entry) (stores []*entry, err error) {
	urls := map[string]*entry{}
	for _, list := range lists {
		for i := range list {
			e := &list[i]
			switch first := urls[e.Name]; {
			case first == nil && e.url == "":
				return nil, fmt.Errorf("store %s has no URL", e.Name)
			case first == nil:
				if same := slices.IndexFunc(stores, func(o *entry) bool { return o.url == e.url }); same >= 0 {
					return nil, fmt.Errorf("stores %s and %s are one, by their URL", stores[same].Name, e.Name)
				}
				urls[e.Name] = e
				stores = append(stores, e)
			case e.url != "" && e.url != first.url:
				return nil, fmt.Errorf("store %s has two URLs", e.Name)
			}
		}
	}
	return stores, nil
}

// settle defers the opening of stores that could not be reached. The error comes from a store that cannot be opened, or
// says that none can be reached.
func settle(opened []*entry, errs []error) error {
	var (
		first    error
		promised []driver.Traits
	)
	for i, e := range opened {
		err := (&store{name: e.Name}).says(errs[i])
		switch {
		case err == nil:
			promised = append(promised, e.Driver.Traits())
		case !driver.IsUnreachable(err):
			return err
		case first == nil:
			first = err
		}
	}
	if len(promised) == 0 {
		return first
	}
	for i, e := range opened {
		if errs[i] != nil {
			e.Driver = newLate(e.url, driver.Weakest(promised...), errs[i])
		}
	}
	return nil
}
