#!/usr/bin/env bash
# Lints the files of this folder with their own tools. A tool that is missing is a failure, not a skip.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

check() {
    local name=$1 tool=$2
    shift 2
    if ! command -v "$tool" >/dev/null; then
        echo "$name: NOT CHECKED, $tool is not installed"
        failed=1
    elif "$@" >"$work/out" 2>&1; then
        echo "$name: ok"
    else
        echo "$name: FAILED"
        sed 's/^/  /' "$work/out"
        failed=1
    fi
}

check_compose() {
    printf 'POSTGRES_PASSWORD=x\n' >"$work/tocsin.env"
    # The env_file of the services is beside the compose file.
    cp mailer.env.example "$work/mailer.env"
    cp compose.yaml "$work/compose.yaml"
    docker compose --env-file "$work/tocsin.env" --profile outbox --profile gateway --profile mailer -f "$work/compose.yaml" config --quiet
}

check_chart() {
    helm lint --strict helm/tocsin --set secretName=tocsin \
        && helm template tocsin helm/tocsin --set secretName=tocsin \
            --set relay.enabled=true --set ingress.enabled=true --set api.autoscaling.enabled=true \
            --set gateway.enabled=true --set mailer.enabled=true --set mailer.secretName=tocsin-mailer
}

check_units() {
    local unit
    for unit in systemd/*.service; do
        # The program need not be installed here, and a template is checked as its first instance.
        sed 's#/opt/tocsin/bin/tocsin#/bin/true#' "$unit" >"$work/$(basename "${unit/@./@1.}")"
    done
    systemd-analyze verify --recursive-errors=no "$work"/*.service
}

check_nginx() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=tocsin.example.com \
        -keyout "$work/privkey.pem" -out "$work/fullchain.pem" \
        && sed "s#/etc/ssl/tocsin#$work#; s#/var/log/nginx#$work#" nginx.conf >"$work/tocsin.conf" \
        && printf 'pid %s/pid;\nevents {}\nhttp { access_log off; include %s/tocsin.conf; }\n' "$work" "$work" >"$work/nginx.conf" \
        && nginx -t -p "$work" -e "$work/error.log" -c "$work/nginx.conf"
}

check aws/template.yaml cfn-lint cfn-lint aws/template.yaml
check Dockerfile hadolint hadolint Dockerfile
check compose.yaml docker check_compose
check helm/tocsin helm check_chart
check systemd systemd-analyze check_units
check nginx.conf nginx check_nginx
exit "$failed"
