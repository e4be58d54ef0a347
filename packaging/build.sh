#!/usr/bin/env bash
# Makes a Debian package and a tar file for amd64 and arm64 in dist/: packaging/build.sh [VERSION]
#
# VERSION, as in v0.1.0, has to be tagged (make release); without it the packages are of HEAD, and their version says of which
# commit. Made twice of one commit by one compiler, the files are the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:-}
revision=HEAD
if [ -n "$version" ]; then
  revision=cmd/stile/$version
  git rev-parse --quiet --verify "$revision^{commit}" >/dev/null || {
    echo "packaging: there is no tag $revision; make release VERSION=$version makes it" >&2
    exit 1
  }
fi
command -v dpkg-deb >/dev/null || { echo "packaging: dpkg-deb is missing, of Debian's package dpkg" >&2; exit 1; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git clone --quiet --local . "$tmp/stile"
git -C "$tmp/stile" -c advice.detachedHead=false checkout --quiet "$(git rev-parse "$revision^{commit}")"
SOURCE_DATE_EPOCH=$(git -C "$tmp/stile" log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux

# compile ARCH FILE
compile() {
  GOARCH=$1 go build -C "$tmp/stile" -trimpath -buildvcs=true -ldflags '-s -w' -tags grpcnotrace -o "$2" ./cmd/stile
}

# archive FOLDER FILE packs a folder so that nothing of this machine is in the file.
archive() {
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$(dirname "$1")" "$(basename "$1")" |
    gzip --best --no-name >"$2"
}

# The pages and the completions are the same for each architecture; a program for this one writes them.
compile "$(go env GOHOSTARCH)" "$tmp/here"
said=$("$tmp/here" version)
built=$(cut -d ' ' -f 2 <<<"$said")
if [ -n "$version" ] && [ "$built" != "$version" ]; then
  echo "packaging: the command says that it is $built, not $version" >&2
  exit 1
fi
if [[ ! $built =~ ^v[0-9] ]]; then
  echo "packaging: the command does not know its version: $said" >&2
  exit 1
fi
number=${built#v}
shared=$tmp/shared
mkdir -p "$shared/man1" "$shared/completions"
"$tmp/here" man "$shared/man1"
for shell in bash zsh fish; do "$tmp/here" completion $shell >"$shared/completions/stile.$shell"; done

mkdir -p dist
for arch in amd64 arm64; do
  name=stile_${number}_linux_$arch
  folder=$tmp/$name
  mkdir -p "$folder"
  compile $arch "$folder/stile"
  cp "$tmp/stile/LICENSE" "$tmp/stile/CHANGELOG.md" "$tmp/stile/packaging/"*.service "$folder"
  cp -r "$shared/man1" "$shared/completions" "$folder"
  archive "$folder" "dist/$name.tar.gz"

  deb=$tmp/deb-$arch
  share=$deb/usr/share
  mkdir -p "$deb/DEBIAN" "$deb/usr/bin" "$deb/lib/systemd/system" "$share/man/man1" "$share/doc/stile" \
    "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
  install -m 755 "$folder/stile" "$deb/usr/bin/stile"
  install -m 644 "$folder/"*.service "$deb/lib/systemd/system"
  install -m 644 "$folder/LICENSE" "$share/doc/stile/copyright"
  install -m 644 "$shared/completions/stile.bash" "$share/bash-completion/completions/stile"
  install -m 644 "$shared/completions/stile.zsh" "$share/zsh/vendor-completions/_stile"
  install -m 644 "$shared/completions/stile.fish" "$share/fish/vendor_completions.d/stile.fish"
  for page in "$shared"/man1/*; do gzip --best --no-name <"$page" >"$share/man/man1/$(basename "$page").gz"; done
  gzip --best --no-name <"$folder/CHANGELOG.md" >"$share/doc/stile/changelog.gz"
  # A pre-release is older than the release: Debian writes that with a tilde.
  cat >"$deb/DEBIAN/control" <<CONTROL
Package: stile
Version: ${number//-/\~}
Architecture: $arch
Maintainer: stile <stile@localhost>
Installed-Size: $(du --summarize --block-size=1024 --apparent-size "$deb/usr" | cut -f 1)
Section: admin
Priority: optional
Description: distributed locks over the store that you have
 stile runs a command while it holds a lock in Redis, ZooKeeper, etcd, Consul,
 PostgreSQL, MySQL, MariaDB, memcached or an SQLite file.
CONTROL
  find "$deb" -type d -exec chmod 755 {} +
  dpkg-deb --root-owner-group -Zxz --build "$deb" "dist/stile_${number}_$arch.deb" >/dev/null
done
(cd dist && sha256sum "stile_${number}"* >"stile_${number}_sha256sums" && ls -s --block-size=1000 "stile_${number}"*)
echo "$said"
