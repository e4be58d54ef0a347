package draw

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

// chineseBook has the pictures of the Chinese pages: the drawings of the book, with these words in them.
var chineseBook = map[string]drawing{"queue.zh-CN": &queue, "fence.zh-CN": &fence, "partition.zh-CN": &partition}

// inChinese are the texts of the Chinese drawings. A line break stands where Chinese, which has no spaces, may break.
var inChinese = map[string]string{
	// queue
	"One queue per name, a number per grant": "每个名字一个队列，每次授予一个编号",
	queue.Desc: "三个进程排在锁 orders/42 的队列里。第一个 web1 以令牌 33 持有锁。后面两个 web2 和 web3 在等待，将得到令牌 34 和 35。" +
		"令牌 32 属于 web0，它被暂停，直到租约到期。web1 带着令牌 33 写入数据库，被接受。web0 带着令牌 32 迟到地写入，被拒绝，因为数据库已经见过令牌 33。",
	"the queue of the lock “orders/42”":      "锁 “orders/42” 的队列",
	"web1\nholds\ntoken 33":                  "web1\n持有锁\n令牌 33",
	"web2\nwaits\nwill get 34":               "web2\n等待\n将得到 34",
	"web3\nwaits\nwill get 35":               "web3\n等待\n将得到 35",
	"the database\nhas seen 33,\nrefuses 32": "数据库\n见过 33，\n拒绝 32",
	"web0\nhad token 32,\nwas paused":        "web0\n令牌曾是 32，\n被暂停过",
	"writes with 33: accepted":               "带 33 写入：接受",
	"late: 32, refused":                      "迟到：32，拒绝",

	// fence
	"A paused holder, and the token that stops it": "被暂停的持有者，和拦住它的令牌",
	fence.Desc: "A 以令牌 33 持有锁，在写入之前被暂停。其间它的租约到期，一直在等待的 B 以令牌 34 持有锁。B 在读取之前先向数据库出示 34。" +
		"A 恢复运行，不知道自己被暂停过，带着令牌 33 写入。数据库已经见过 34，拒绝这次写入。",
	"A":                            "A",
	"B":                            "B",
	"33":                           "33",
	"34":                           "34",
	"token 33":                     "令牌 33",
	"paused":                       "被暂停",
	"is late":                      "迟到",
	"the database's highest token": "数据库里最大的令牌",
	"waits":                        "等待",
	"holds, token 34":              "持有，令牌 34",
	"A's lease ends":               "A 的租约到期",
	"shows 34, reads":              "出示 34，读取",
	"33: refused":                  "33：拒绝",

	// partition
	"Redis with a replica: two hold, one writes": "带副本的 Redis：两个持有者，一个写入",
	partition.Desc: "A 在旧的主节点上以令牌 33 持有锁。旧的主节点与副本断开，副本还不知道这次申请，就被提升为主节点。B 在新的主节点上加锁，" +
		"得到令牌 34，而 A 仍然持有。B 向数据库出示 34，数据库于是拒绝 A 带着 33 的写入。",
	"the old primary":                   "旧的主节点",
	"serves A, also when it is cut off": "为 A 服务，断开之后也是",
	"holds, token 33":                   "持有，令牌 33",
	"the replica":                       "副本",
	"is behind":                         "落后",
	"is promoted and serves B":          "被提升，为 B 服务",
	"the network is cut":                "网络断开",
	"shows 34":                          "出示 34",
}

// identifiers are fields of a drawing that nobody reads.
var identifiers = map[string]bool{"ID": true, "Unit": true}

func TestChineseBook(t *testing.T) {
	used := map[string]bool{}
	for name, d := range chineseBook {
		t.Run(name, func(t *testing.T) {
			v := reflect.New(reflect.TypeOf(d).Elem()).Elem()
			if err := translate(v, reflect.ValueOf(d).Elem(), used); err != nil {
				t.Fatal(err)
			}
			golden(t, images+"/"+name+".svg", v.Addr().Interface().(drawing))
		})
	}
	shown, err := filepath.Glob("../../docs/*/*.zh-CN.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(shown, "../../README.zh-CN.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, picture := range regexp.MustCompile(`images/([^)]*)\.svg\)`).FindAllStringSubmatch(string(text), -1) {
			if chineseBook[picture[1]] == nil {
				t.Errorf("%s shows %s.svg, whose texts are not Chinese: add it to chineseBook", page, picture[1])
			}
		}
	}
	for english := range inChinese {
		if !used[english] {
			t.Errorf("no drawing has the text %q any more", english)
		}
	}
}

// translate makes to a copy of from with its texts in Chinese.
func translate(to, from reflect.Value, used map[string]bool) error {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			field := from.Type().Field(i)
			if text := from.Field(i); field.Type.Kind() == reflect.String && !identifiers[field.Name] && !isID(from, i) && text.String() != "" {
				chinese, ok := inChinese[text.String()]
				if !ok {
					return fmt.Errorf("inChinese does not have the text %q", text)
				}
				used[text.String()] = true
				to.Field(i).SetString(chinese)
			} else if err := translate(to.Field(i), text, used); err != nil {
				return err
			}
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			if err := translate(to.Index(i), from.Index(i), used); err != nil {
				return err
			}
		}
	default:
		to.Set(from)
	}
	return nil
}

// isID reports whether a field is the end of an arrow.
func isID(from reflect.Value, i int) bool {
	name := from.Type().Field(i).Name
	return from.Type() == reflect.TypeFor[Arrow]() && (name == "From" || name == "To")
}
