# The twin of ../template.yaml: a topic, an archive queue, and functions that deliver to phones and browsers.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80, < 6.0"
    }
  }
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  is_fifo = var.topic_type == "fifo"
  suffix  = local.is_fifo ? ".fifo" : ""
  has_web = var.redis_url_parameter != null
  account = data.aws_caller_identity.current.account_id
  region  = data.aws_region.current.name

  applications = compact([var.android_application_arn, var.ios_application_arn])
  # The endpoints of arn:…:app/GCM/name are arn:…:endpoint/GCM/name/…
  endpoints  = [for arn in local.applications : "${replace(arn, ":app/", ":endpoint/")}/*"]
  parameters = "arn:${data.aws_partition.current.partition}:ssm:${local.region}:${local.account}:parameter"

  # Visibility is six times the timeout of the function, as AWS asks for. What a browser did not get in an hour,
  # it loads by itself. Only the archive is wrapped: the wrapper has the time and the id of each message.
  queues = merge(
    {
      archive = { retention = var.archive_retention_seconds, visibility = 300, raw = false, types = [] }
      mobile  = { retention = 345600, visibility = 360, raw = true, types = var.mobile_event_types }
    },
    local.has_web ? {
      web = { retention = 3600, visibility = 180, raw = true, types = var.web_event_types }
    } : {}
  )
}

resource "aws_sns_topic" "this" {
  name                        = "${var.name}${local.suffix}"
  fifo_topic                  = local.is_fifo
  content_based_deduplication = local.is_fifo
  # One person's messages in order, many people at once.
  fifo_throughput_scope = local.is_fifo ? "MessageGroup" : null
  kms_master_key_id     = coalesce(var.kms_key_arn, "alias/aws/sns")
}

data "aws_iam_policy_document" "topic" {
  statement {
    sid       = "Account"
    actions   = ["sns:Publish", "sns:Subscribe", "sns:GetTopicAttributes"]
    resources = [aws_sns_topic.this.arn]
    principals {
      type        = "AWS"
      identifiers = ["arn:${data.aws_partition.current.partition}:iam::${local.account}:root"]
    }
  }
  statement {
    sid       = "Encrypted"
    effect    = "Deny"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sns_topic_policy" "this" {
  arn    = aws_sns_topic.this.arn
  policy = data.aws_iam_policy_document.topic.json
}

resource "aws_sqs_queue" "dead_letters" {
  for_each                  = local.queues
  name                      = "${var.name}-${each.key}-dead${local.suffix}"
  fifo_queue                = local.is_fifo
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = var.kms_key_arn == null ? true : null
  kms_master_key_id         = var.kms_key_arn
}

resource "aws_sqs_queue" "this" {
  for_each                   = local.queues
  name                       = "${var.name}-${each.key}${local.suffix}"
  fifo_queue                 = local.is_fifo
  deduplication_scope        = local.is_fifo ? "messageGroup" : null
  fifo_throughput_limit      = local.is_fifo ? "perMessageGroupId" : null
  message_retention_seconds  = each.value.retention
  visibility_timeout_seconds = each.value.visibility
  receive_wait_time_seconds  = each.key == "archive" ? 20 : 0
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  kms_master_key_id          = var.kms_key_arn
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters[each.key].arn
    maxReceiveCount     = var.max_receives
  })
}

data "aws_iam_policy_document" "queue" {
  for_each = local.queues
  statement {
    sid       = "FromTopic"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.this[each.key].arn]
    principals {
      type        = "Service"
      identifiers = ["sns.amazonaws.com"]
    }
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [aws_sns_topic.this.arn]
    }
  }
  statement {
    sid       = "Encrypted"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.this[each.key].arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "this" {
  for_each  = local.queues
  queue_url = aws_sqs_queue.this[each.key].url
  policy    = data.aws_iam_policy_document.queue[each.key].json
}

resource "aws_sns_topic_subscription" "this" {
  for_each             = local.queues
  topic_arn            = aws_sns_topic.this.arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.this[each.key].arn
  raw_message_delivery = each.value.raw
  # By the body: a publisher that sets no attributes is filtered alike.
  filter_policy_scope = length(each.value.types) > 0 ? "MessageBody" : null
  filter_policy       = length(each.value.types) > 0 ? jsonencode({ event_type = each.value.types }) : null
  depends_on          = [aws_sqs_queue_policy.this]
}

# Where other stacks find them.
resource "aws_ssm_parameter" "this" {
  for_each = {
    "topic-arn"         = aws_sns_topic.this.arn
    "archive-queue-url" = aws_sqs_queue.this["archive"].url
    "tocsin-url"        = var.tocsin_url
  }
  name  = "/${var.name}/${each.key}"
  type  = "String"
  value = each.value
}
