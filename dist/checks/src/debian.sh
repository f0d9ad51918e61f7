#!/bin/sh
# Runs in a fresh Debian system: installs, uses, upgrades, removes and purges the package, whose two
# revisions are /packages/old.deb and /packages/new.deb. Prints a line `RESULT 1 what` for every check
# that passes, and `RESULT 0 what` for one that fails.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
QUICKSTART=/usr/share/doc/evbd/examples/quickstart.toml

holds() {
    what=$1
    shift
    if "$@"; then echo "RESULT 1 $what"; else echo "RESULT 0 $what"; fi
}

# Lists all files with their kinds, rights and owners, all packages, users and groups. What apt, dpkg and
# passwd note about every installation is left out: logs, caches, lists, and copies of old files. So is
# /run, which a reboot empties.
traces() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /packages \
        -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path '/var/lib/dpkg/*-old' \
        -o -path '/etc/*-' \) -prune -o -printf '%p %y %m %u %g\n' | sort
    dpkg-query --show
    getent passwd
    getent group
}

as_evb() { (cd /var/lib/evb && runuser -u evb -- "$@"); }
quiet() { "$@" > /tmp/said 2>&1 || { cat /tmp/said; false; }; }
install() { quiet apt-get install --yes --quiet --no-install-recommends "$1"; }
purge() { quiet apt-get purge --yes --quiet evbd; }
version_is() { [ "$(dpkg-query --show --showformat '${Version}' evbd)" = "$1" ]; }
complete() { as_evb evbd verify "$1" > /tmp/verify.log 2>&1 && grep -q "^  complete *$2\$" /tmp/verify.log; }

# Prints the folder in /proc of the evbd that hosts a role.
process() {
    for folder in /proc/[0-9]*; do
        if [ "$(readlink "$folder/exe")" = /usr/bin/evbd ] && grep -q "$1" "$folder/cmdline"; then echo "$folder"; fi
    done
}

traces > /tmp/before

holds "apt installs the package" install /packages/old.deb
holds "the package has its old version" version_is "$OLD"
holds "the packaged configuration is valid for user evb" quiet as_evb evbd check /etc/evb/evb.toml
holds "the package has the notices of all that is in it" grep -q "Leon Sorokin" /usr/share/doc/evbd/THIRD-PARTY.txt
holds "user evb runs the quickstart" as_evb evbd run --quiet "$QUICKSTART"
holds "all 10 000 events of the quickstart are complete" complete out/quickstart 10000
holds "files of user evb are not for everybody" [ "$(stat -c '%U %a' /var/lib/evb /etc/evb | tr '\n' ' ')" = "evb 750 root 750 " ]

# An upgrade in the middle of a run of 20 s: one process is a builder, another one is everything else.
sed 's/^events = .*/events = 40_000/; s|out/quickstart|out/upgrade|' "$QUICKSTART" > /var/lib/evb/upgrade.toml
echo '# a change of the administrator' >> /etc/evb/evb.toml
(as_evb evbd run --quiet --role builder:1 upgrade.toml > /tmp/builder.log 2>&1; echo $? > /tmp/builder.code) &
others="--role supervisor --role builder:2 --role source:1 --role source:2 --role source:3 --role source:4"
(as_evb evbd run --quiet $others upgrade.toml > /tmp/others.log 2>&1; echo $? > /tmp/others.code) &
sleep 4
builder=$(process builder:1)
holds "apt upgrades the package during a run" install /packages/new.deb
holds "the package has its new version" version_is "$NEW"
holds "the builder still runs the program that the upgrade replaced" \
    [ "$(readlink "$builder/exe")" = "/usr/bin/evbd (deleted)" ]
holds "the upgrade keeps the administrator's configuration" grep -q 'change of the administrator' /etc/evb/evb.toml
wait
holds "the run ends without a fault" [ "$(cat /tmp/builder.code /tmp/others.code | tr '\n' ' ')" = "0 0 " ]
holds "all 40 000 events of the run are complete" complete out/upgrade 40000

holds "apt purges the package" purge
holds "a purge keeps the event files" test -s /var/lib/evb/out/quickstart/run000001_b01_0000.evb
holds "apt installs the package again" install /packages/new.deb
rm -r /var/lib/evb/*
holds "apt purges the package again" purge
traces > /tmp/after
holds "no file, package, user or group remains" diff /tmp/before /tmp/after
