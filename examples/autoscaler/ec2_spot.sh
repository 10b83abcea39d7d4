#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Spot instances of EC2 for an autoscaled cluster (docs/autoscaler.md):
#
#     provider:
#       ask: /opt/crt/ec2_spot.sh ask
#       list: /opt/crt/ec2_spot.sh list
#       end: /opt/crt/ec2_spot.sh end
#
# Needs aws(1) with a profile that may run, tag and terminate instances, and in the environment of
# crt start --head:
#     EC2_IMAGE        an image with crt installed
#     EC2_SUBNET       where the head's address is reached
#     EC2_GROUP        security group: its members reach each other, nobody else reaches them
#     EC2_PROFILE      instance profile that may read the secret EC2_KEY_SECRET
#     EC2_KEY_SECRET   name in AWS Secrets Manager of the cluster's key, put there once by
#                      aws secretsmanager create-secret --name NAME \
#                          --secret-string "file://$HOME/.local/state/crt/head-6380/cluster.key"
# The key is in no argument, variable or user data. Each node type is an instance type: m5.xlarge.
set -eu

tagged='Name=tag-key,Values=crt-instance Name=instance-state-name,Values=pending,running'

# What the machine runs: a node in the foreground; with its end the machine is gone.
user_data() {
    cat <<END
#!/bin/sh
umask 077
aws secretsmanager get-secret-value --secret-id '$EC2_KEY_SECRET' --query SecretString \\
    --output text >/run/cluster.key &&
    crt start --block --address '$CRT_ADDRESS' --key-file /run/cluster.key \\
        --node-ip-address "\$(hostname -I | cut -d ' ' -f 1)" $CRT_NODE_OPTIONS
poweroff
END
}

case $1 in
    ask)
        # The token makes an order that is given twice one machine.
        aws ec2 run-instances --count 1 --client-token "$CRT_INSTANCE" \
            --image-id "$EC2_IMAGE" --subnet-id "$EC2_SUBNET" --security-group-ids "$EC2_GROUP" \
            --iam-instance-profile "Name=$EC2_PROFILE" --instance-type "$CRT_NODE_TYPE" \
            --instance-market-options MarketType=spot \
            --instance-initiated-shutdown-behavior terminate \
            --tag-specifications \
            "ResourceType=instance,Tags=[{Key=crt-instance,Value=$CRT_INSTANCE}]" \
            --user-data "$(user_data)" >/dev/null
        ;;
    list)
        # shellcheck disable=SC2086 # two filters
        aws ec2 describe-instances --filters $tagged --output text \
            --query "Reservations[].Instances[].Tags[?Key=='crt-instance'][].Value"
        ;;
    end)
        # shellcheck disable=SC2086
        ids=$(aws ec2 describe-instances --output text \
            --query 'Reservations[].Instances[].InstanceId' \
            --filters "Name=tag:crt-instance,Values=$CRT_INSTANCE" $tagged)
        # shellcheck disable=SC2086
        test -z "$ids" || aws ec2 terminate-instances --instance-ids $ids >/dev/null
        ;;
    *)
        echo "usage: $0 ask|list|end" >&2
        exit 2
        ;;
esac
