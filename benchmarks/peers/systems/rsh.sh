# Starts a command of mpirun on a host: rsh.sh ADDRESS WORDS. Hosts of one machine need
# names of their own, or Open MPI takes them for one.
host=$1
shift
space=$(printf %s "$PEERS_HOSTS" | tr , '\n' | sed -n "s|^$host=||p")
exec nsenter --net="$space" unshare --uts sh -c "hostname host-$host; exec sh -c \"\$0\"" "$*"
