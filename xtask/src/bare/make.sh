# Makes the root of the bare place. It runs as root, in mount, network and process namespaces of its own:
#   make.sh BASE CHECKOUT SYSROOT CARGO_HOME
# The root is BASE/root; everything is gone with the namespaces.
set -eu
base=$1 checkout=$2 sysroot=$3 cargo_home=$4
root=$base/root
id=1000

# The user has what README.md names, and what every Linux has: coreutils and a shell.
coreutils='[ arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd
df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln logname
ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd
readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat
stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users vdir wc
who whoami yes'
compiler='cc gcc as ld'

mount --make-rprivate /
mount -t tmpfs -o mode=755 bare "$base"
mkdir "$root" "$base/upper" "$base/work"
cd "$root"
mkdir -p dev/shm etc proc sys tmp user usr/bin
chmod 1777 tmp dev/shm

bind() {
  mkdir -p "$root$1"
  mount --bind "$1" "$root$1"
  mount -o remount,bind,ro "$root$1"
}

# Shared libraries, and what the C compiler reads.
for path in /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/include /lib /lib32 /lib64; do
  if [ -L "$path" ]; then
    cp -P "$path" "$root$path"
  elif [ -d "$path" ]; then
    bind "$path"
  fi
done
ln -s usr/bin bin
for name in sh $coreutils $compiler; do
  for folder in /usr/bin /bin; do
    if [ -x "$folder/$name" ]; then
      cp -L "$folder/$name" "usr/bin/$name"
      break
    fi
  done
done
for file in /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d; do
  if [ -e "$file" ]; then cp -r "$file" etc; fi
done
printf 'root:x:0:0::/:/bin/sh\nuser:x:%s:%s::/user:/bin/sh\n' "$id" "$id" >etc/passwd
printf 'root:x:0:\nuser:x:%s:\n' "$id" >etc/group
printf '127.0.0.1 localhost\n' >etc/hosts
printf 'hosts: files\n' >etc/nsswitch.conf

for name in null zero full random urandom tty; do
  touch "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys

# A loopback device without IPv6 is the only device.
ip link set lo up
for file in proc/sys/net/ipv6/conf/*/disable_ipv6; do
  if [ -e "$file" ]; then echo 1 >"$file"; fi
done

# The toolchain, and the sources of dependencies, which cargo wants to see for a build that does nothing.
bind "$sysroot"
mkdir -p "$root$cargo_home"
for name in registry config.toml; do
  if [ -d "$cargo_home/$name" ]; then
    bind "$cargo_home/$name"
  elif [ -e "$cargo_home/$name" ]; then
    cp "$cargo_home/$name" "$root$cargo_home"
  fi
done

# The checkout belongs to the user, but what the user writes does not reach it.
mkdir -p "$root$checkout"
mount -t overlay -o "lowerdir=$checkout,upperdir=$base/upper,workdir=$base/work" bare "$root$checkout"
chown "$id:$id" user "$root$cargo_home"
cd "$root$checkout"
find . -maxdepth 3 -path ./target -prune -o -path ./.git -prune -o -type d -exec chown "$id:$id" {} +
for path in target target/debug target/debug/deps target/debug/examples target/debug/build target/debug/.fingerprint \
  target/debug/incremental target/debug/.cargo-lock target/tmp target/.rustc_info.json target/debug/*.d \
  target/debug/examples/*.d; do
  if [ -e "$path" ]; then chown "$id:$id" "$path"; fi
done
